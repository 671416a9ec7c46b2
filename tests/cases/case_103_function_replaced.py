"""own case - kind B (the activation, a plain function, is another one after the first call).
"""
import torch
from torch import nn
import torch.nn.functional as F

class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.act = F.relu

    def forward(self, x):
        return self.act(x) * 2

def make():
    torch.manual_seed(0)
    return M().eval(), (torch.randn(4, 3),), None

def change(model):
    model.act = torch.tanh

def more_inputs():
    torch.manual_seed(1)
    return [(torch.randn(4, 3),)]
