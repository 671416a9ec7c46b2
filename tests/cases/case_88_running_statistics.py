"""own case - kind B (BatchNorm without affine and InstanceNorm in training mode: statistics after several calls).
"""
import torch
from torch import nn
import torch.nn.functional as F

def make():
    torch.manual_seed(0)
    # A shift, so that the statistics of the second are not all rounding.
    norm = nn.BatchNorm2d(3, momentum=0.5)
    norm.bias.data.copy_(torch.tensor([0.5, -1.0, 2.0]))
    return nn.Sequential(norm, nn.InstanceNorm2d(3, track_running_stats=True)).train(), (torch.randn(4, 3, 2, 2),), None

def more_inputs():
    torch.manual_seed(1)
    return [(torch.randn(4, 3, 2, 2),), (torch.randn(4, 3, 2, 2),)]
