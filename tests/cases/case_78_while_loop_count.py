"""own case - kind B (while_loop whose number of turns hangs on an input; none at all too).
"""
import torch
from torch import nn
import torch.nn.functional as F

from torch._higher_order_ops.while_loop import while_loop


class M(nn.Module):
    def forward(self, i, x):
        return while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x * 1.5), (i, x))

def make():
    torch.manual_seed(0)
    return M().eval(), (torch.tensor(0), torch.randn(4)), None

def more_inputs():
    torch.manual_seed(1)
    return [(torch.tensor(4), torch.randn(4)), (torch.tensor(9), torch.randn(4))]
