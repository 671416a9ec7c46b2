"""own case - kind B (nested results: int, bool and None keys, fixed values, empty containers, a tensor twice).
"""
import torch
from torch import nn
import torch.nn.functional as F

from typing import NamedTuple


class Pair(NamedTuple):
    first: object
    second: object


class M(nn.Module):
    def forward(self, x):
        y = x + 1
        return {1: y, "k": [None, 5, True, 2.5, "s", ()], None: Pair((y, x), {}), 2.5: [], "n": x.shape[0]}

def make():
    torch.manual_seed(0)
    return M().eval(), (torch.randn(3),), None
