"""own case - kind B (sizes in arithmetic, at both ends of their ranges; equal sizes at capture by accident).
"""
import torch
from torch import nn
import torch.nn.functional as F

class M(nn.Module):
    def forward(self, x, y):
        h, w = x.shape
        return x[:, : w // 2], torch.arange(h * 2) % w, x.new_ones(h + w), x / (w + 40), torch.full((h,), w), h % 3, y.sum(1) + h

def make():
    torch.manual_seed(0)
    return M().eval(), (torch.randn(6, 6), torch.randn(6, 4)), ({0: torch.export.Dim("h", min=2, max=20), 1: torch.export.Dim("w", min=2, max=20)}, {0: torch.export.Dim("c", min=2, max=9)})

def more_inputs():
    torch.manual_seed(1)
    return [(torch.randn(2, 2), torch.randn(9, 4)), (torch.randn(20, 20), torch.randn(2, 4)), (torch.randn(7, 3), torch.randn(5, 4))]
