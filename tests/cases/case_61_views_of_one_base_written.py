"""own case - kind B (two arguments share memory at capture, one is written to; later they do not).
AOTAutograd makes one input of both and installs no guard: aot_eager and inductor answer wrongly.
"""
import torch
from torch import nn
import torch.nn.functional as F

class M(nn.Module):
    def forward(self, x, y):
        x.add_(1)
        return y * 2

def make():
    torch.manual_seed(0)
    x = torch.randn(3, 3)
    return M().eval(), (x, x.t()), None

def more_inputs():
    torch.manual_seed(1)
    return [(torch.randn(3, 3), torch.randn(3, 3).t())]
