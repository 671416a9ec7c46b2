"""own case - kind B (boolean masks: none, all and some true; where with numbers of another dtype).
"""
import torch
from torch import nn
import torch.nn.functional as F

class M(nn.Module):
    def forward(self, x, m):
        y = x.clone()
        y[m] = 0
        return y, x.masked_fill(m, -float('inf')).softmax(-1), torch.where(m, x, -1.0), torch.where(m, 1, 0), torch.where(m, 2.5, x.double()), torch.where(x > 0, torch.tensor(1), torch.tensor(2.0)), x[m], m.nonzero()

def make():
    torch.manual_seed(0)
    return M().eval(), (torch.randn(4, 3), torch.randn(4, 3) > 0), None

def more_inputs():
    torch.manual_seed(1)
    return [(torch.randn(4, 3), torch.zeros(4, 3, dtype=torch.bool)), (torch.randn(4, 3), torch.ones(4, 3, dtype=torch.bool))]
