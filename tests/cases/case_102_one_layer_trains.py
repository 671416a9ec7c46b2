"""own case - kind B (one dropout alone goes to training mode after the first call).
"""
import torch
from torch import nn
import torch.nn.functional as F

def make():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5)).eval(), (torch.randn(2, 3),), None

def change(model):
    model[1].train()

def more_inputs():
    torch.manual_seed(1)
    return [(torch.randn(2, 3),)]
