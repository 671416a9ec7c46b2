"""own case - kind B (one tensor for two arguments at capture).
A tracer that knows tensors by identity makes one input of them, and answers x - 2x for ever.
"""
import torch
from torch import nn
import torch.nn.functional as F

class M(nn.Module):
    def forward(self, x, y):
        return x - 2 * y

def make():
    torch.manual_seed(0)
    x = torch.randn(6)
    return M().eval(), (x, x), None

def more_inputs():
    torch.manual_seed(1)
    return [(torch.randn(6), torch.randn(6))]
