"""own case - kind B (a dict argument whose keys come in another order).
Forward goes through the items, so the order is part of the call.
"""
import torch
from torch import nn
import torch.nn.functional as F

class M(nn.Module):
    def forward(self, batch):
        return sum(v * (i + 1) for i, v in enumerate(batch.values()))

def make():
    torch.manual_seed(0)
    return M().eval(), ({"a": torch.randn(3), "b": torch.randn(3)},), None

def more_inputs():
    torch.manual_seed(1)
    return [({"b": torch.randn(3), "a": torch.randn(3)},)]
