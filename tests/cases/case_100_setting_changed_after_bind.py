"""own case - kind B (a plain number of the model, and one in a list, are changed after the first call).
"""
import torch
from torch import nn
import torch.nn.functional as F

class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.factor, self.weights = nn.Linear(3, 3), 2.0, [1.0, 0.5]

    def forward(self, x):
        return self.fc(x) * self.factor + self.weights[1]

def make():
    torch.manual_seed(0)
    return M().eval(), (torch.randn(2, 3),), None

def change(model):
    model.weights[1] = 3.0

def more_inputs():
    torch.manual_seed(1)
    return [(torch.randn(2, 3),)]
