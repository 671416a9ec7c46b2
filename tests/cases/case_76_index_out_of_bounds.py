"""own case - kind B (an index past the end, at a later call).
Eager raises; the compiled code must not read what lies there.
"""
import torch
from torch import nn
import torch.nn.functional as F

class M(nn.Module):
    def forward(self, w, i):
        return w[i] * 2, F.embedding(i, w), w.index_select(0, i), w.gather(0, i[:, None])

def make():
    torch.manual_seed(0)
    return M().eval(), (torch.randn(5, 3), torch.tensor([0, 4])), None

def more_inputs():
    torch.manual_seed(1)
    return [(torch.randn(5, 3), torch.tensor([5, 0])), (torch.randn(5, 3), torch.tensor([0, -6])), (torch.randn(5, 3), torch.tensor([10**6, 0])), (torch.randn(5, 3), torch.tensor([3, 1]))]
