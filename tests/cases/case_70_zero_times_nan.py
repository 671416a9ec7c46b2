"""own case - kind C (an integer zero times NaN or infinity).
Inductor folds x * 0 to zeros; eager keeps NaN.
"""
import torch
from torch import nn
import torch.nn.functional as F

class M(nn.Module):
    def forward(self, x):
        return x * 0, x * 0 + 1, (x * 0).sum(), torch.zeros_like(x) * x

def make():
    torch.manual_seed(0)
    return M().eval(), (torch.randn(4),), None

def more_inputs():
    return [(torch.tensor([1.0, float("nan"), float("inf"), -2.0]),)]
