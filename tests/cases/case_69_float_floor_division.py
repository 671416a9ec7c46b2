"""own case - kind C (floor division and remainder of floats).
Inductor rounds the quotient: 0.5 // 0.1 gave 5 where eager gives 4, and 2**31 % 3 gave 0.
"""
import torch
from torch import nn
import torch.nn.functional as F

class M(nn.Module):
    def forward(self, x, y):
        return x // y, x % y, x // 0.1, x % 0.1, x % 3, torch.div(x, y, rounding_mode="floor"), (x.bfloat16() // 0.3)

def _in(scale):
    x = torch.arange(1, 41) * 0.1 * scale
    return x, torch.where(torch.arange(40) % 2 == 0, 0.1, -0.7)


def make():
    return M().eval(), _in(1.0), None

def more_inputs():
    x, y = _in(-1.0)
    x[:6] = torch.tensor([2.0**31, 1e10, float("inf"), -0.0, 1e20, -7.5])
    y[5] = 0.0
    return [(x, y)]
