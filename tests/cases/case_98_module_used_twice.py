"""own case - kind B (one BatchNorm under two names, in training mode: its buffers are written twice a call).
"""
import torch
from torch import nn
import torch.nn.functional as F

class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = self.two = nn.BatchNorm1d(3)
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        return self.two(self.linear(self.one(x)))

def make():
    torch.manual_seed(0)
    return M().train().requires_grad_(False), (torch.randn(5, 3),), None

def more_inputs():
    torch.manual_seed(1)
    return [(torch.randn(5, 3),)]
