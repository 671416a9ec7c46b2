"""own case - kind C (NaN, infinities and signed zeros in reductions and comparisons).
"""
import torch
from torch import nn
import torch.nn.functional as F

class M(nn.Module):
    def forward(self, x, y):
        return (
            x.max(1), x.min(1), x.argmax(1), x.amax(1), x.aminmax(dim=1), x.sum(1), x.prod(1), x.sort(1), x.topk(2),
            x.logsumexp(1), x.softmax(1), x.cummax(1), x.any(1), x.nansum(1), torch.maximum(x, y), torch.fmin(x, y),
            x.clamp(-1, 1), x.clamp(min=y), x.relu(), F.hardtanh(x), x.sign(), x > y, x == y, x.nan_to_num(),
            torch.copysign(torch.ones_like(x), x), torch.where(x > 0, x, 0.0), F.max_pool1d(x[None], 2), x.bool(),
        )

N, I = float("nan"), float("inf")


def make():
    torch.manual_seed(0)
    return M().eval(), (torch.randn(5, 4), torch.randn(5, 4)), None

def more_inputs():
    x = torch.tensor([[N, 1, I, -I], [-I, -I, -I, -I], [-0.0, 0.0, -0.0, 2], [N, N, N, N], [I, I, 1, -0.0]])
    return [(x, x.flip(0)), (x, torch.zeros(5, 4))]
