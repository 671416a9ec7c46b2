"""own case - kind B (another layout than at capture: channels_last, every other column, misaligned, flipped).
"""
import torch
from torch import nn
import torch.nn.functional as F

class M(nn.Module):
    def forward(self, x):
        return F.avg_pool2d(x, 2), x.sum(1), x * 2

def make():
    torch.manual_seed(0)
    return M().eval(), (torch.randn(2, 4, 5, 5),), None

def more_inputs():
    torch.manual_seed(1)
    return [(torch.randn(2, 4, 5, 5).to(memory_format=torch.channels_last),), (torch.randn(2, 4, 5, 10)[..., ::2],)]
