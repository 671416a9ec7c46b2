"""own case - kind C (division of integers: negative ones, and by zero).
Eager raises for a zero; Inductor's code for trunc and fmod ends the process (SIGFPE).
"""
import torch
from torch import nn
import torch.nn.functional as F

class M(nn.Module):
    def forward(self, x, y):
        return x // y, x % y, torch.div(x, y, rounding_mode="trunc"), x.fmod(y), x / y, x >> 1

def make():
    torch.manual_seed(0)
    return M().eval(), (torch.tensor([-7, 7, -8, 8, 9, 2**62]), torch.tensor([2, 3, 3, 1, 7, 1])), None

def more_inputs():
    x = torch.tensor([-(2**63), 7, -8, 0, 9, 1])
    return [(x, torch.tensor([2, -2, 3, -3, 7, 1])), (x, torch.tensor([2, -2, 0, -3, 7, 1]))]
