"""own case - kind B (results that are views of one another, of an input, and an input itself).
"""
import torch
from torch import nn
import torch.nn.functional as F

class M(nn.Module):
    def forward(self, x):
        y = x * 2
        return y, y.t(), y[1:], y.view(-1), x, x.t(), x[1:, ::2], x.detach()

def make():
    torch.manual_seed(0)
    return M().eval(), (torch.randn(3, 4),), None
