"""own case - kind B (view_as_complex of an input, and the real part of a complex one, written in place).
"""
import torch
from torch import nn
import torch.nn.functional as F

class M(nn.Module):
    def forward(self, x, c):
        torch.view_as_complex(x).mul_(2j)
        torch.view_as_real(c)[:, 0].add_(1)
        return x.sum(), c * 2

def make():
    torch.manual_seed(0)
    return M().eval(), (torch.randn(4, 2), torch.randn(4, dtype=torch.complex64)), None

def more_inputs():
    torch.manual_seed(1)
    return [(torch.randn(4, 2), torch.randn(4, dtype=torch.complex64))]
