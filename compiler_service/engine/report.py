"""What the compiler did: which operators went into which kernel, and the memory it planned.

A hook after Inductor's fusion pass reads the scheduler; the generated wrapper tells which buffers
were reused. Nothing in here may fail a compile.
"""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

from compile_farm.v1 import artifact_pb2

log = logging.getLogger(__name__)

_REUSED = re.compile(r"//\s*reuse")
_ALLOCATED = re.compile(r"aoti_torch_empty_strided\w*\(")


class FusionHook:
    """Given to Inductor as ``_post_fusion_custom_pass``; fills ``report``."""

    def __init__(self) -> None:
        self.report = artifact_pb2.Report()

    def __call__(self, nodes: list[Any]) -> list[Any]:
        try:
            self._read(nodes)
        except Exception:  # the compile matters more than its report
            log.warning("the fusion report could not be made", exc_info=True)
        return nodes

    def __deepcopy__(self, memo: dict[int, Any]) -> FusionHook:
        # Inductor copies its settings; the report must come back here.
        return self

    def uuid(self) -> str:
        """Inductor asks for it in cache keys: a report changes no code."""
        return "compile-farm-report"

    def _read(self, nodes: list[Any]) -> None:
        del self.report.kernels[:]
        for node in nodes:
            kind = _kind(node)
            if kind is None:
                continue
            self.report.kernels.add(
                name=node.get_name(),
                kind=kind,
                ops=_operators(node),
                bytes_read=_size(node.get_read_buffer_sizes),
                bytes_written=_size(node.get_write_buffer_sizes),
            )
        self.report.peak_bytes_planned = max(self.report.peak_bytes_planned, _peak_bytes(nodes))

    def read_wrapper(self, source: Path) -> None:
        """Counts the buffers of the generated wrapper, which says so in comments."""
        try:
            text = source.read_text(errors="replace")
        except OSError:
            return
        self.report.buffers_reused = len(_REUSED.findall(text))
        self.report.buffers_allocated = len(_ALLOCATED.findall(text))


def _kind(node: Any) -> str | None:
    if type(node).__name__ == "NopKernelSchedulerNode":
        return None
    if node.is_extern():
        return "extern"
    if node.is_template():
        return "template"
    return "reduction" if node.is_reduction() else "pointwise"


def _operators(node: Any) -> list[str]:
    names: list[str] = []
    for part in node.get_nodes():
        if part.node is None:
            continue
        for origin in part.node.get_origins():
            if origin.op == "call_function" and (name := str(origin.target)) not in names:
                names.append(name)
    return sorted(names)


def _size(measure: Any) -> int:
    try:
        return max(int(measure()), 0)
    except (TypeError, ValueError, AttributeError):
        return 0


def _peak_bytes(nodes: list[Any]) -> int:
    from torch._inductor.memory import prepare_planning_info
    from torch._inductor.virtualized import V
    from torch.utils._ordered_set import OrderedSet

    scheduler = V.graph.scheduler
    planned = prepare_planning_info(
        nodes,
        scheduler.name_to_buf,
        scheduler.name_to_fused_node,
        OrderedSet(V.graph.graph_inputs),
        OrderedSet(V.graph.get_output_names()),
    )
    return int(planned[0])
