"""own case - kind C (bfloat16 and float16: x + y - y, a product cast to float32, softmax, norms).
Eager's roundings in between, to the bit.
"""
import torch
from torch import nn
import torch.nn.functional as F

class M(nn.Module):
    def forward(self, x, y):
        out = []
        for dtype in (torch.bfloat16, torch.float16):
            a, b = x.to(dtype), y.to(dtype)
            out += [a + b - b, (a * b).float(), (a / 3) * 3 - a, a.softmax(-1), F.layer_norm(a, (16,)), F.rms_norm(a, (16,)) * b, a.mean(-1, keepdim=True) * a, F.gelu(a) * b, a.sum(-1) - b.sum(-1), a.cumsum(-1) + b, F.silu(a) * b]
        return out

def make():
    torch.manual_seed(0)
    return M().eval(), (torch.randn(16, 16) * 2, torch.randn(16, 16)), None
