"""own case - kind B (weights tied at capture, one of them replaced later).
torch.export makes one input of tied weights; the second name must still be looked up.
"""
import torch
from torch import nn
import torch.nn.functional as F

class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.dec = nn.Linear(4, 4), nn.Linear(4, 4)
        self.dec.weight = self.enc.weight

    def forward(self, x):
        return self.dec(self.enc(x))

def make():
    torch.manual_seed(0)
    return M().eval(), (torch.randn(2, 4),), None

def change(model):
    model.dec.weight = nn.Parameter(torch.arange(16.0).view(4, 4))


def more_inputs():
    torch.manual_seed(1)
    return [(torch.randn(2, 4),)]
