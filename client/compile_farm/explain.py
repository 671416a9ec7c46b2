"""Why two requests have two keys, and which artifact is most like a request.

In: two Sides, each of a manifest or of a capture with target and options; or components and many
manifests. Out: Differences in words, an Explanation of a miss, a ranking. Needs no torch and no
grpc: the gateway ranks with this, and the client explains.

A component whose digests are equal is not looked into. Causes come first and what may only follow
from them last: the graph of a model has other arguments when its input has other sizes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from compile_farm.difference import Difference, Side
from compile_farm.explain_convention import convention_differences
from compile_farm.explain_signature import signature_differences
from compile_farm.summary import likeness
from compile_farm.targets import ISA_LEVELS
from compile_farm.v1 import artifact_pb2, target_pb2

COMPONENTS = ("target", "options", "signature", "calling_convention", "graph")
_MOST_OPERATORS = 6


def differences(here: Side, there: Side) -> list[Difference]:
    """Every difference, by component in the order of COMPONENTS; empty for one and the same key."""
    if here.key == there.key:
        return []
    found: list[Difference] = []
    if here.components.version != there.components.version:
        mine, theirs = here.components.version, there.components.version
        words = f"key version {mine} here, {theirs} there: compile again with one version of both"
        found.append(Difference("version", "version", str(mine), str(theirs), words))
    for component in COMPONENTS:
        mine, theirs = (getattr(side.components, component) for side in (here, there))
        if mine == theirs:
            continue
        differ = list(_DIFFERENCES[component](here, there))
        if not differ and not found:
            words = f"{component.replace('_', ' ')}: another digest, for a reason not recorded"
            differ = [Difference(component, "", mine, theirs, words)]
        found += differ
    return found


def same_components(here: Side, there: Side) -> list[str]:
    """Those whose digests are equal."""
    return [
        name
        for name in COMPONENTS
        if getattr(here.components, name) == getattr(there.components, name)
    ]


def rank(
    components: artifact_pb2.KeyComponents,
    summary: artifact_pb2.GraphSummary,
    manifests: Iterable[artifact_pb2.Manifest],
    limit: int,
) -> list[artifact_pb2.Manifest]:
    """The manifests most like a request, the best first.

    Same target first, since everything else runs elsewhere; then most equal components, most alike
    operators, newest; the key breaks a tie, so that the answer is always the same.
    """

    def place(manifest: artifact_pb2.Manifest) -> tuple[bool, int, float, int, str]:
        equal = [getattr(components, n) == getattr(manifest.components, n) for n in COMPONENTS]
        alike = likeness(summary, manifest.graph_summary)
        return equal[0], sum(equal), alike, manifest.created, manifest.key

    return sorted(manifests, key=place, reverse=True)[:limit]


@dataclass(frozen=True)
class Explanation:
    """Why a request or key is none of the farm's artifacts, or that it is one.

    Attributes:
        here: what was asked about.
        there: what it was compared with, the nearest in the store unless one was named; None where
            there is nothing to compare with.
        hit: whether the farm has an artifact under the very key.
        differences: where ``here`` and ``there`` part; empty for a hit.
        compared: how many of the store's artifacts were looked at for the nearest.
        more: whether there are others, which were not.
        quarantined: why the key's own artifact is in quarantine; empty if it is not.
    """

    here: Side
    there: Side | None
    hit: bool = False
    differences: list[Difference] = field(default_factory=list)
    compared: int = 0
    more: bool = False
    quarantined: str = ""

    def lines(self) -> Iterator[str]:
        """The explanation for a person, without the keys."""
        if self.quarantined:
            yield f"the artifact of this key is in quarantine: {self.quarantined}"
        elif self.hit:
            yield "the farm has an artifact under this very key"
        if self.there is None:
            if not self.quarantined and not self.hit:
                unread = ": what it has could not be read in time" if self.more else ""
                yield f"the store has nothing to compare it with{unread}"
            return
        if self.here.key == self.there.key:
            yield "one and the same key"
            return
        for difference in self.differences:
            remark = "" if difference.matters else " (by itself no reason to compile)"
            yield f"{difference.component.replace('_', ' ')}: {difference.words}{remark}"
        if same := same_components(self.here, self.there):
            yield f"the same: {', '.join(name.replace('_', ' ') for name in same)}"

    def __str__(self) -> str:
        lines = list(self.lines())
        if self.there is not None and self.differences:
            lines.insert(0, f"the nearest in the store is {self.there.key}:")
        return "\n".join(lines)


def explanation(here: Side, there: Side, compared: int = 0, more: bool = False) -> Explanation:
    """Of ``here`` against ``there``."""
    return Explanation(
        here, there, differences=differences(here, there), compared=compared, more=more
    )


def _target(here: Side, there: Side) -> Iterator[Difference]:
    def differ(
        field: str, mine: str, theirs: str, what: str, why: str = "", matters: bool = True
    ) -> Difference:
        words = f"{what} {mine or 'none'} here, {theirs or 'none'} there" + (why and f": {why}")
        return Difference("target", field, mine, theirs, words, matters)

    mine, theirs = here.target, there.target
    hardware = mine.WhichOneof("hardware") or "", theirs.WhichOneof("hardware") or ""
    if hardware[0] != hardware[1]:
        yield differ("hardware", *hardware, "built for", "code of one does not run on the other")
    elif hardware[0] == "cuda":
        if mine.cuda.arch != theirs.cuda.arch:
            yield differ("cuda.arch", mine.cuda.arch, theirs.cuda.arch, "the GPU's architecture is")
        if mine.cuda.device_name != theirs.cuda.device_name:
            names = mine.cuda.device_name, theirs.cuda.device_name
            yield differ(
                "cuda.device_name", *names, "the GPU is", "tuned kernels are per card; compile here"
            )
    elif mine.cpu.isa != theirs.cpu.isa:
        lower = _level(theirs.cpu.isa) <= _level(mine.cpu.isa)
        why = "lower, so it runs here too" if lower else "this CPU may lack its instructions"
        yield differ("cpu.isa", mine.cpu.isa, theirs.cpu.isa, "the CPU's level is", why, not lower)
    ours, other = mine.toolchain, theirs.toolchain
    if ours.torch != other.torch:
        same = ours.torch.partition("+")[0] == other.torch.partition("+")[0]
        why = "another build" if same else "another version"
        why += "; install the same on both sides, or compile again"
        yield differ("toolchain.torch", ours.torch, other.torch, "torch is", why)
    elif ours.torch_git != other.torch_git:
        why = "two builds of one version"
        yield differ("toolchain.torch_git", ours.torch_git, other.torch_git, "torch's commit", why)
    for name, what in (
        ("triton", "Triton is"),
        ("cuda_runtime", "the CUDA runtime is"),
        ("platform", "the platform is"),
    ):
        values = getattr(ours, name), getattr(other, name)
        if values[0] != values[1]:
            yield differ(f"toolchain.{name}", *values, what)


def _level(isa: str) -> int:
    # What is not known may need anything.
    return ISA_LEVELS.index(isa) if isa in ISA_LEVELS else len(ISA_LEVELS)


def _options(here: Side, there: Side) -> Iterator[Difference]:
    if here.options.effort != there.options.effort:
        mine, theirs = (_name(target_pb2.Effort, side.options.effort) for side in (here, there))
        better = there.options.effort > here.options.effort
        why = "measured, so it is at least as fast" if better else "only defaults were tried there"
        words = f"the effort is {mine} here, {theirs} there: {why}"
        yield Difference("options", "effort", mine, theirs, words, not better)
    if here.options.numerics != there.options.numerics:
        mine, theirs = (_name(target_pb2.Numerics, side.options.numerics) for side in (here, there))
        strict = there.options.numerics == target_pb2.NUMERICS_STRICT
        why = "it rounds as eager does" if strict else "it may round where eager does not"
        words = f"numerics are {mine} here, {theirs} there: {why}"
        yield Difference("options", "numerics", mine, theirs, words, not strict)


def _name(enum: object, value: int) -> str:
    """ "tuned" for EFFORT_TUNED; a value newer than this client stays a number."""
    known = enum.DESCRIPTOR.values_by_number.get(value)  # type: ignore[attr-defined]
    return str(known.name.partition("_")[2].lower()) if known else str(value)


def _signature(here: Side, there: Side) -> Iterator[Difference]:
    return signature_differences(here.signature, there.signature)


def _convention(here: Side, there: Side) -> Iterator[Difference]:
    return convention_differences(here, there)


def _graph(here: Side, there: Side) -> Iterator[Difference]:
    libraries = list(_libraries(here, there))
    yield from libraries
    mine, theirs = here.graph_summary, there.graph_summary
    if not mine.nodes or not theirs.nodes:
        if not libraries and not (mine.nodes or theirs.nodes):
            yield Difference("graph", "", "", "", "another graph; none of both has a summary")
        elif mine.nodes or theirs.nodes:
            sides = f"{mine.nodes} calls", f"{theirs.nodes} calls"
            words = "another graph, and one side has no summary: built before there were any"
            yield Difference("graph", "nodes", *sides, words)
        return
    operators = list(_operators(mine, theirs))
    yield from operators
    for name, what in (("effects", "writes, draws and assertions"), ("subgraphs", "subgraphs")):
        counts = getattr(mine, name), getattr(theirs, name)
        if counts[0] != counts[1]:
            words = f"{counts[0]} {what} here, {counts[1]} there"
            yield Difference("graph", name, str(counts[0]), str(counts[1]), words)
    if (
        operators
        or libraries
        or (mine.effects, mine.subgraphs)
        != (
            theirs.effects,
            theirs.subgraphs,
        )
    ):
        return
    words = "the same operators, with other arguments or in another order"
    if here.components.signature != there.components.signature:
        words += "; sizes are among the arguments, so this may follow from the signature"
    yield Difference("graph", "nodes", here.components.graph, there.components.graph, words)


def _operators(
    mine: artifact_pb2.GraphSummary, theirs: artifact_pb2.GraphSummary
) -> Iterator[Difference]:
    counts = {
        name: (mine.operators.get(name, 0), theirs.operators.get(name, 0))
        for name in {*mine.operators, *theirs.operators}
    }
    changed = {name: pair for name, pair in counts.items() if pair[0] != pair[1]}
    here_alone = [name for name, (_, count) in changed.items() if count == 0]
    there_alone = [name for name, (count, _) in changed.items() if count == 0]
    rows: list[tuple[int, Difference]] = []
    if len(here_alone) == len(there_alone) == 1:
        # One in place of the other.
        (one,), (other,) = here_alone, there_alone
        times = changed.pop(one)[0], changed.pop(other)[1]
        sides = f"{_operator(one)} {_times(times[0])}", f"{_operator(other)} {_times(times[1])}"
        words = f"{sides[0]} here, {sides[1]} there"
        yield Difference("graph", f"operators[{one}]", *sides, words)
    for name, (count, other_count) in changed.items():
        words = f"{_operator(name)} {_times(count)} here, {_times(other_count)} there"
        row = Difference("graph", f"operators[{name}]", str(count), str(other_count), words)
        rows.append((abs(count - other_count), row))
    rows.sort(key=lambda row: (-row[0], row[1].field))
    yield from (row for _, row in rows[:_MOST_OPERATORS])
    if (rest := len(rows) - _MOST_OPERATORS) > 0:
        sides = f"{mine.nodes} calls", f"{theirs.nodes} calls"
        words = f"{rest} more operators differ; {sides[0]} in all here, {sides[1]} there"
        yield Difference("graph", "nodes", *sides, words)


def _operator(name: str) -> str:
    """ "aten.relu" for "aten::relu.default", as torch prints it."""
    return name.replace("::", ".").removesuffix(".default")


def _times(count: int) -> str:
    return {0: "not at all", 1: "once", 2: "twice"}.get(count, f"{count} times")


def _libraries(here: Side, there: Side) -> Iterator[Difference]:
    def named(side: Side) -> dict[str, str]:
        return {one.namespace: f"{one.module} {one.version}" for one in side.libraries}

    mine, theirs = named(here), named(there)
    for namespace in sorted({*mine, *theirs}):
        values = mine.get(namespace, ""), theirs.get(namespace, "")
        if values[0] != values[1]:
            words = f"{namespace}:: comes from {values[0] or 'nothing'} here, "
            words += f"{values[1] or 'nothing'} there"
            yield Difference("graph", f"libraries[{namespace}]", *values, words)


_DIFFERENCES = {
    "target": _target,
    "options": _options,
    "signature": _signature,
    "calling_convention": _convention,
    "graph": _graph,
}

__all__: Sequence[str] = (
    "COMPONENTS",
    "Difference",
    "Explanation",
    "Side",
    "differences",
    "explanation",
    "rank",
    "same_components",
)
