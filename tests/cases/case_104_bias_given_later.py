"""own case - kind B (a layer without bias gets one after the first call).
"""
import torch
from torch import nn
import torch.nn.functional as F

def make():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 3, bias=False), nn.Tanh()).eval(), (torch.randn(4, 3),), None

def change(model):
    model[0].bias = nn.Parameter(torch.ones(3))

def more_inputs():
    torch.manual_seed(1)
    return [(torch.randn(4, 3),)]
