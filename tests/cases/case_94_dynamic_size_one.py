"""own case - kind B (a dynamic dimension that is 1 at a call: squeeze drops it, contiguous copies nothing).
"""
import torch
from torch import nn
import torch.nn.functional as F

class M(nn.Module):
    def forward(self, x):
        return x.squeeze(0), x.t().contiguous(), x + 1

def make():
    torch.manual_seed(0)
    return M().eval(), (torch.randn(4, 6),), ({0: torch.export.Dim("h", min=1, max=20)},)

def more_inputs():
    torch.manual_seed(1)
    return [(torch.randn(1, 6),), (torch.randn(20, 6),)]
