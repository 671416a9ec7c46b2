"""own case - kind B (a tensor in a list of the model is written to after the first call).
"""
import torch
from torch import nn
import torch.nn.functional as F

class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.scales = [torch.ones(3), torch.full((3,), 2.0)]

    def forward(self, x):
        return x * self.scales[0] + self.scales[1]

def make():
    torch.manual_seed(0)
    return M().eval(), (torch.randn(3),), None

def change(model):
    model.scales[0].fill_(5.0)

def more_inputs():
    torch.manual_seed(1)
    return [(torch.randn(3),)]
