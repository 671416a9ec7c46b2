"""own case - kind C (int8 and uint8 that overflow, bool arithmetic, shifts).
"""
import torch
from torch import nn
import torch.nn.functional as F

class M(nn.Module):
    def forward(self, x, y, b):
        return (
            x + y, x * y, -x, x.abs(), x + 200, x.sum(), x.cumsum(0), x.to(torch.uint8) + 1, x.to(torch.int16) * 300,
            x << 1, x >> 1, ~x, x & y, x.square(), x * 2.5, x.clamp(-5, 5), b + b, b * b, b.sum(), b ^ ~b, b.cumsum(0), x * b,
        )

def make():
    torch.manual_seed(0)
    return M().eval(), (torch.tensor([-128, -1, 0, 100, 127], dtype=torch.int8), torch.tensor([-1, -128, 3, 100, 2], dtype=torch.int8), torch.tensor([True, False, True, True, False])), None
