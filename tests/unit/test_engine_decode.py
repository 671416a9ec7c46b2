"""What a capture says of a call must be so: a hidden write would have another graph's key."""

from __future__ import annotations

import pytest
import torch

from compile_farm.errors import InvalidGraphError
from compile_farm.v1 import graph_pb2
from compiler_service.engine.decode import decode
from tests.captures import capture_of, diamond_capture, tensor, user_input, value

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("op", "said"),
    [
        ("aten::zero_.default", graph_pb2.EFFECT_NONE),
        ("aten::zero_.default", graph_pb2.EFFECT_RANDOM),
        ("aten::bernoulli.default", graph_pb2.EFFECT_NONE),
        ("aten::cos.default", graph_pb2.EFFECT_MUTATES),
        ("aten::cos.default", graph_pb2.EFFECT_ASSERTS),
    ],
)
def test_an_effect_that_is_hidden_or_made_up(op: str, said: graph_pb2.Effect) -> None:
    spec = tensor(4, 4)
    hidden = graph_pb2.Node(op=op, args=[value(0)], effect=said)
    seen = graph_pb2.Node(op="aten::sin.default", args=[value(0)])
    capture = capture_of([user_input(spec, "x")], [hidden, seen], [2], [spec])
    with pytest.raises(InvalidGraphError, match=r"is said to have EFFECT_.*, and has EFFECT_"):
        decode(capture, CPU)
    decode(diamond_capture(), CPU)
