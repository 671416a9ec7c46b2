"""own case - kind B (x[1:] += x[:-1] and the like: eager raises).
"""
import torch
from torch import nn
import torch.nn.functional as F

class M(nn.Module):
    def forward(self, x):
        y = x * 2
        y[1:].add_(y[:-1])
        return y

def make():
    torch.manual_seed(0)
    return M().eval(), (torch.randn(8),), None
