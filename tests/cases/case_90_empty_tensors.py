"""own case - kind B (tensors without elements, in and out).
"""
import torch
from torch import nn
import torch.nn.functional as F

class M(nn.Module):
    def forward(self, x, y, z):
        return x + 1, x.sum(0), x.t(), y @ y.t(), torch.cat([x, z]), x.mean(), y.prod(1), z[:0], x.reshape(3, 0), torch.zeros(0), x.softmax(-1), y.sum(1, keepdim=True)

def make():
    torch.manual_seed(0)
    return M().eval(), (torch.empty(0, 3), torch.empty(2, 0), torch.randn(2, 3)), None
