"""own case - kind B (a float tensor viewed as int32 and written through the view; an input too).
"""
import torch
from torch import nn
import torch.nn.functional as F

class M(nn.Module):
    def forward(self, x):
        y = x * 2
        y.view(torch.int32).bitwise_and_(0x7FFFFFFF)
        x.view(torch.int32).bitwise_xor_(-(2**31))
        return y, x * 1.0

def make():
    torch.manual_seed(0)
    return M().eval(), (torch.randn(4),), None

def more_inputs():
    torch.manual_seed(1)
    return [(torch.randn(4),)]
