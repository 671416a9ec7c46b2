"""own case - kind C (an input that begins at an odd element, and a flipped one).
"""
import torch
from torch import nn
import torch.nn.functional as F

class M(nn.Module):
    def forward(self, x):
        return x.sin() + x.cos(), x.flip(0).cumsum(0)

def make():
    torch.manual_seed(0)
    return M().eval(), (torch.randn(64),), None

def more_inputs():
    torch.manual_seed(1)
    return [(torch.randn(65)[1:],), (torch.randn(64).flip(0),)]
