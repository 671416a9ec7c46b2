"""own case - kind B (t_() and unsqueeze_() on an input: the caller's tensor changes its sizes and strides).
"""
import torch
from torch import nn
import torch.nn.functional as F

class M(nn.Module):
    def forward(self, x):
        x.t_()
        return x + 1

def make():
    torch.manual_seed(0)
    return M().eval(), (torch.randn(3, 4),), None
