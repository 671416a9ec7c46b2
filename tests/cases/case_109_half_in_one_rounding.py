"""own case - kind C (bfloat16 and float16: lerp and glu round once, a product and a sum twice, addmm once).
"""
import torch
from torch import nn
import torch.nn.functional as F

class M(nn.Module):
    def forward(self, x, y):
        out = []
        for dtype in (torch.bfloat16, torch.float16):
            a, b = x.to(dtype), y.to(dtype)
            out += [torch.lerp(a, b, b), F.glu(a), a @ b + a, a + b @ a, torch.addmm(a, a, b), F.linear(a, b, a[0]), F.linear(a, b) + a[0], F.relu(F.linear(a, b, a[1])) + b]
        return out

def make():
    torch.manual_seed(0)
    return M().eval(), (torch.randn(16, 16), torch.randn(16, 16)), None

def more_inputs():
    torch.manual_seed(1)
    return [(torch.randn(16, 16), torch.randn(16, 16))]
