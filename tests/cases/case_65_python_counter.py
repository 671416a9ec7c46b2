"""own case - kind B (forward counts its calls in a Python attribute).
A graph has no place for it; the second call must not answer as the first.
"""
import torch
from torch import nn
import torch.nn.functional as F

class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x * self.calls

def make():
    torch.manual_seed(0)
    return M().eval(), (torch.randn(3),), None

def more_inputs():
    torch.manual_seed(1)
    return [(torch.randn(3),), (torch.randn(3),)]
