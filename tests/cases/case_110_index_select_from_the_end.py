"""own case - kind B (index_select with a negative index, at a later call).
Eager raises; an ordinary index would count from the end.
"""
import torch
from torch import nn
import torch.nn.functional as F

class M(nn.Module):
    def forward(self, x, i):
        return x.index_select(0, i)

def make():
    torch.manual_seed(0)
    return M().eval(), (torch.randn(5, 3), torch.tensor([0, 1])), None

def more_inputs():
    torch.manual_seed(1)
    return [(torch.randn(5, 3), torch.tensor([-1, 0])), (torch.randn(5, 3), torch.tensor([4, 2]))]
