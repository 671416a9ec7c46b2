"""own case - kind B (eps, then another eps: a float of a layer that changes between calls).
"""
import torch
from torch import nn
import torch.nn.functional as F

def make():
    torch.manual_seed(0)
    return nn.Sequential(nn.BatchNorm1d(3)).train().requires_grad_(False), (torch.randn(5, 3),), None

def change(model):
    model[0].eps = 0.5

def more_inputs():
    torch.manual_seed(1)
    return [(torch.randn(5, 3),), (torch.randn(5, 3),)]
