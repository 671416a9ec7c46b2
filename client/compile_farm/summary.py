"""What a graph calls, in numbers: small enough for a manifest, enough to tell two graphs apart.

In: a Graph. Out: a GraphSummary, and how alike two of them are. Needs no torch.
"""

from __future__ import annotations

from collections import Counter

from compile_farm.v1 import artifact_pb2, graph_pb2


def summarize(graph: graph_pb2.Graph) -> artifact_pb2.GraphSummary:
    """Counts over the graph and all graphs in it."""
    operators: Counter[str] = Counter()
    effects, graphs, waiting = 0, 0, [graph]
    while waiting:
        one = waiting.pop()
        graphs += 1
        waiting.extend(one.subgraphs)
        operators.update(node.op for node in one.nodes)
        effects += sum(node.effect != graph_pb2.EFFECT_NONE for node in one.nodes)
    return artifact_pb2.GraphSummary(
        operators=operators,
        nodes=operators.total(),
        effects=effects,
        subgraphs=graphs - 1,
    )


def likeness(one: artifact_pb2.GraphSummary, other: artifact_pb2.GraphSummary) -> float:
    """1 for the same operators as often, 0 for none in common or where nothing is known."""
    names = set(one.operators) | set(other.operators)
    # ``get``: looking a name up in a protobuf map puts it there.
    pairs = [(one.operators.get(name, 0), other.operators.get(name, 0)) for name in names]
    every = sum(max(pair) for pair in pairs)
    return sum(min(pair) for pair in pairs) / every if every else 0.0
