"""own case - kind B (eval mode at capture, training mode at a later call).
"""
import torch
from torch import nn
import torch.nn.functional as F

def make():
    torch.manual_seed(0)
    return nn.Sequential(nn.BatchNorm1d(3), nn.Dropout(0.5)).eval(), (torch.randn(5, 3),), None

def change(model):
    model.train()


def more_inputs():
    torch.manual_seed(1)
    return [(torch.randn(5, 3),)]
