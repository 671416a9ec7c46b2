"""own case - kind B (results in an OrderedDict, as torchvision's segmentation models return).
Its type and the order of its keys come back.
"""
import torch
from torch import nn
import torch.nn.functional as F

from collections import OrderedDict


class M(nn.Module):
    def forward(self, x):
        return OrderedDict(out=x + 1, aux=OrderedDict(z=x * 2, a=x))

def make():
    torch.manual_seed(0)
    return M().eval(), (torch.randn(3),), None
