"""own case - kind B (a default given by position, by keyword, and with another value).
"""
import torch
from torch import nn
import torch.nn.functional as F

class M(nn.Module):
    def forward(self, x, scale=2.0, *rest, bias=1):
        return x * scale + bias + sum(rest)

def make():
    torch.manual_seed(0)
    return M().eval(), (torch.randn(3),), None

def more_inputs():
    torch.manual_seed(1)
    return [(torch.randn(3), 2.0), (torch.randn(3), 3.0), (torch.randn(3), 2.0, 4)]
