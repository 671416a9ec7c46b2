"""own case - kind B (weights and buffers at offsets of one storage, 0-d, empty, transposed, None; two written).
"""
import torch
from torch import nn
import torch.nn.functional as F

class M(nn.Module):
    def __init__(self):
        super().__init__()
        base = torch.arange(30.0)
        self.w = nn.Parameter(base[1:5].clone()[1:4])
        self.register_buffer("a", base[5:8])
        self.register_buffer("b", base[8:14].view(3, 2)[:, 0])
        self.register_buffer("turned", base[20:26].view(2, 3).t(), persistent=False)
        self.register_buffer("none", None)
        self.scale, self.empty = nn.Parameter(torch.tensor(2.0)), nn.Parameter(torch.empty(0, 3))

    def forward(self, x):
        assert self.none is None
        self.a.add_(x)
        self.b.mul_(2)
        return x * self.w * self.scale + self.a + self.b, self.turned @ self.turned.t(), self.empty, F.linear(x, self.empty), self.a[1:]

def make():
    torch.manual_seed(0)
    return M().eval(), (torch.randn(3),), None

def more_inputs():
    torch.manual_seed(1)
    return [(torch.randn(3),)]
