"""own case - kind B (index_put, index_add and scatter_reduce with repeated and negative indices).
"""
import torch
from torch import nn
import torch.nn.functional as F

class M(nn.Module):
    def forward(self, x, i, v):
        a = x.index_put((i,), v, accumulate=True)
        b = x.index_add(0, i % 5, v)
        c = [x.scatter_reduce(0, i % 5, v, r, include_self=False) for r in ("sum", "amax", "mean", "prod")]
        d = x.clone()
        d[i] += 1
        return a, b, c, d, x[i], x.take(i % 5)

def make():
    torch.manual_seed(0)
    return M().eval(), (torch.randn(5), torch.tensor([1, 1, 3, 1]), torch.randn(4)), None

def more_inputs():
    torch.manual_seed(1)
    return [(torch.randn(5), torch.tensor([0, 0, 0, 0]), torch.randn(4)), (torch.randn(5), torch.tensor([4, -1, 4, -5]), torch.randn(4))]
