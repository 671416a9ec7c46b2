"""own case - kind B (a parameter replaced, one frozen, one moved by .data, after the first call).
The next call uses the new ones.
"""
import torch
from torch import nn
import torch.nn.functional as F

def make():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 3)).eval(), (torch.randn(2, 4),), None

def change(model):
    model[0].weight = nn.Parameter(torch.eye(4))
    model[0].bias.requires_grad_(False)
    model[2].bias.data = torch.arange(3.0)


def more_inputs():
    torch.manual_seed(1)
    return [(torch.randn(2, 4),)]
