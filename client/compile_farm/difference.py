"""One difference between two keys, and what both sides of a comparison bring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from compile_farm.key import key_components, key_of
from compile_farm.summary import summarize
from compile_farm.v1 import artifact_pb2, graph_pb2, target_pb2


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two keys part.

    Attributes:
        component: "target", "options", "signature", "calling_convention", "graph", or "version".
        field: what differs, as a path into the component's message: "inputs[2].tensor.strides".
        here: the value on this side.
        there: the value on the other side.
        words: both in a sentence, with what to do where something can be done.
        matters: False where the artifact there would do here as well, found by its own key.
    """

    component: str
    field: str
    here: str
    there: str
    words: str
    matters: bool = True


@dataclass(frozen=True, slots=True)
class Side:
    """What a key was made of, less the graph itself. ``created`` is 0 for what was never built."""

    key: str
    components: artifact_pb2.KeyComponents
    signature: graph_pb2.Signature
    calling_convention: graph_pb2.CallingConvention
    target: target_pb2.Target
    options: target_pb2.Options
    graph_summary: artifact_pb2.GraphSummary
    libraries: Sequence[graph_pb2.Library] = field(default=())
    created: int = 0

    @classmethod
    def of_manifest(cls, manifest: artifact_pb2.Manifest) -> Side:
        """That of an artifact."""
        return cls(
            key=manifest.key,
            components=manifest.components,
            signature=manifest.signature,
            calling_convention=manifest.calling_convention,
            target=manifest.target,
            options=manifest.options,
            graph_summary=manifest.graph_summary,
            libraries=manifest.libraries,
            created=manifest.created,
        )

    @classmethod
    def of_capture(
        cls, capture: graph_pb2.Capture, target: target_pb2.Target, options: target_pb2.Options
    ) -> Side:
        """That of a request; ``capture`` must have passed schema.check_capture."""
        components = key_components(capture, target, options)
        return cls(
            key=key_of(components),
            components=components,
            signature=capture.signature,
            calling_convention=capture.calling_convention,
            target=target,
            options=options,
            graph_summary=summarize(capture.graph),
            libraries=capture.libraries,
        )
