"""own case - kind B (dropout in training mode and random numbers: what eager draws from the same seed).
"""
import torch
from torch import nn
import torch.nn.functional as F

class M(nn.Module):
    def forward(self, x):
        return F.dropout(x, 0.5), torch.rand(5), torch.randn_like(x), torch.randint(0, 10, (4,)), torch.randperm(9), torch.bernoulli(x.sigmoid()), x.sigmoid().multinomial(5), x.clone().uniform_()

def make():
    torch.manual_seed(0)
    return M().train(), (torch.randn(16),), None

def more_inputs():
    torch.manual_seed(1)
    return [(torch.randn(16),)]
