"""The model of these examples, a small classifier, and a factory for `compile-farm compile`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class Classifier(nn.Module):
    """Tokens of shape (batch, length) to scores of shape (batch, 3)."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(1000, 64)
        self.query_key_value = nn.Linear(64, 192)
        self.norm = nn.LayerNorm(64)
        self.scores = nn.Linear(64, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        """Unnormalised scores."""
        x = self.embedding(tokens)
        query, key, value = self.query_key_value(x).chunk(3, dim=-1)
        x = self.norm(x + nn.functional.scaled_dot_product_attention(query, key, value))
        scores: Tensor = self.scores(x.mean(dim=1))
        return scores


def make_model(seed: int = 0) -> Classifier:
    """Random weights; a real program would load its own."""
    torch.manual_seed(seed)
    return Classifier().eval()


def make() -> dict[str, Any]:
    """What `compile-farm compile examples/model.py:make` compiles: any batch from 1 to 64."""
    batch = torch.export.Dim("batch", min=1, max=64)
    return {
        "model": make_model(),
        "args": (torch.randint(0, 1000, (4, 16)),),
        "dynamic_shapes": ({0: batch},),
    }
