"""own case - kind B (x.data = y on an argument).
torch.export drops it without a word.
"""
import torch
from torch import nn
import torch.nn.functional as F

class M(nn.Module):
    def forward(self, x):
        y = x * 2
        x.data = y
        return y + 1

def make():
    torch.manual_seed(0)
    return M().eval(), (torch.randn(4),), None
