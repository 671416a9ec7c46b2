"""Verify: the compiled code against eager, on fresh random inputs, before anyone sees it.

Each run draws inputs and weights, runs the decoded graph eagerly in its own precision, runs it in
float64 as the reference (float32 where an operator has no float64 kernel), and runs the artifact.
The artifact passes if it is no further from the reference than a few times eager itself, or than
rounding may cost for its dtype and the length of its sums (see depth.py). Without a reference in
higher precision eager is the reference. Integers, booleans and the places of NaN and of each
infinity must be eager's. Two sets of weights; the ends of all dynamic ranges together, and the ends
and the middle of each by itself. What the code writes into its inputs is compared like an output.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from compile_farm.runtime.checks import strides_fit
from compile_farm.runtime.numbers import (
    bits,
    is_inexact,
    largest_error,
    relative_error,
    same_kind,
    wide,
)
from compile_farm.v1 import artifact_pb2, compiler_pb2, graph_pb2
from compiler_service.engine.depth import DepthMeter, least_bound
from compiler_service.engine.errors import EngineError
from compiler_service.engine.inputs import compiled_order, copy_all, random_inputs, symbol_values
from compiler_service.engine.precise import run_precise

Runner = Callable[[list[torch.Tensor]], Sequence[torch.Tensor]]

# How many times eager's own error the artifact may have.
_TIMES_EAGER = 4.0


@dataclass
class Subject:
    """What is verified: the graph, and how to call what it was compiled to."""

    signature: graph_pb2.Signature
    module: fx.GraphModule
    compiled_inputs: Sequence[artifact_pb2.CompiledInput]
    run: Runner
    device: torch.device
    random: bool


class _EagerFailed(Exception):
    def __init__(self, failure: EngineError) -> None:
        super().__init__(str(failure))
        self.failure = failure


def verify(subject: Subject) -> artifact_pb2.Verification:
    """Runs the comparison; raises EngineError (VERIFICATION_FAILED) where the artifact differs."""
    result = artifact_pb2.Verification()
    precisions: set[str] = set()
    together, alone = symbol_values(subject.signature)
    sizes = [together[0], *together, *alone]
    for seed, symbols in enumerate(sizes):
        try:
            run, precision = _one_run(subject, symbols, seed=1000 + seed)
        except _EagerFailed as error:
            # Sizes that the model only takes together were not promised by themselves.
            if symbols in alone:
                continue
            raise error.failure from error
        result.runs.append(run)
        precisions.add(precision)
    # The weakest claim of all runs.
    result.reference_precision = next(
        name for name in ("same", "float32", "float64") if name in precisions
    )
    return result


def _one_run(
    subject: Subject, symbols: Mapping[int, int], seed: int
) -> tuple[artifact_pb2.VerificationRun, str]:
    values, eager, written, depth = _run_eager(subject, symbols, seed)
    reference, precision = (
        (None, "same") if subject.random else _reference(subject, values, symbols)
    )
    inputs = copy_all(values)
    torch.manual_seed(seed)
    with torch.no_grad():
        given = list(subject.run(compiled_order(subject.compiled_inputs, inputs, symbols)))
    if len(given) != len(eager):
        raise _failed(f"the artifact gives {len(given)} outputs, eager {len(eager)}")
    names = [f"output {index}" for index in range(len(eager))]
    mutated = [i for i, entry in enumerate(subject.signature.inputs) if entry.mutated]
    names += [f"input {subject.signature.inputs[i].name or i} after the call" for i in mutated]
    run = artifact_pb2.VerificationRun(symbols=list(symbols.values()))
    for position, name in enumerate(names):
        after = position - len(eager)
        mine = given[position] if after < 0 else inputs[mutated[after]]
        theirs = eager[position] if after < 0 else written[mutated[after]]
        better = None
        if reference is not None:
            outputs, afterwards = reference
            better = outputs[position] if after < 0 else afterwards[mutated[after]]
        _compare(name, mine, theirs, better, symbols, run, depth)
    _check_untouched(subject, values, inputs)
    return run, precision


def _run_eager(
    subject: Subject, symbols: Mapping[int, int], seed: int
) -> tuple[list[Any], list[torch.Tensor], list[Any], int]:
    """Fresh inputs, eager's outputs for them, the inputs as eager left them, and how many numbers
    the longest sum has."""
    problem: Exception | None = None
    for cautious in (False, True):
        values = random_inputs(subject.signature, symbols, subject.device, seed, cautious=cautious)
        inputs = copy_all(values)
        torch.manual_seed(seed)
        try:
            with torch.no_grad():
                arguments = compiled_order(subject.compiled_inputs, inputs, symbols)
                meter = DepthMeter(subject.module)
                outputs = list(meter.run(*arguments))
                return values, outputs, inputs, meter.depth
        except Exception as error:  # an index out of range, an assertion of the model's own
            problem = error
    failure = EngineError(
        compiler_pb2.REASON_VERIFICATION_FAILED,
        f"eager itself fails on random inputs: {type(problem).__name__}: {str(problem)[:1000]}",
        remedy="the graph checks its inputs' values; submit it with example inputs that pass",
        stage="verify",
    )
    raise _EagerFailed(failure) from problem


def _reference(
    subject: Subject, values: list[Any], symbols: Mapping[int, int]
) -> tuple[tuple[list[torch.Tensor], list[Any]] | None, str]:
    # The same seed draws other numbers in another precision.
    precisions = [] if subject.random else [torch.float64, torch.float32]
    for dtype in precisions:
        try:
            outputs, after = run_precise(
                subject.module, subject.compiled_inputs, copy_all(values), symbols, dtype
            )
        except Exception:  # no kernel for it in this precision
            continue
        return (outputs, after), str(dtype).removeprefix("torch.")
    return None, "same"


def _compare(
    name: str,
    mine: torch.Tensor,
    eager: torch.Tensor,
    reference: torch.Tensor | None,
    symbols: Mapping[int, int],
    run: artifact_pb2.VerificationRun,
    depth: int,
) -> None:
    where = f"{name} at sizes {list(symbols.values())}" if symbols else name
    if mine.shape != eager.shape or mine.dtype != eager.dtype or mine.device != eager.device:
        raise _failed(
            f"{where}: {tuple(mine.shape)} {mine.dtype} on {mine.device}, where eager gives "
            f"{tuple(eager.shape)} {eager.dtype} on {eager.device}"
        )
    if not strides_fit(mine, eager.stride()):
        # torch's own rules for fake tensors differ from some of its kernels.
        raise _failed(f"{where}: strides {mine.stride()}, where eager gives {eager.stride()}")
    if mine.numel() == 0:
        return
    if not is_inexact(mine):
        if not torch.equal(mine, eager):
            wrong = int((mine != eager).sum())
            raise _failed(f"{where}: {wrong} of {mine.numel()} integers differ from eager's")
        return
    least = least_bound(mine.dtype, depth)
    a, b = wide(mine), wide(eager)
    if not same_kind(a, b):
        raise _failed(f"{where}: NaN or infinity where eager has none, or the reverse")
    finite = torch.isfinite(b)
    a, b = a[finite], b[finite]
    best = b
    if reference is not None and reference.shape == eager.shape:
        best = wide(reference)[finite]
        if not bool(torch.isfinite(best).all()):
            best = b
    error, eager_error = relative_error(a, best), relative_error(b, best)
    bound = max(_TIMES_EAGER * eager_error, least)
    run.error, run.eager_error = max(run.error, error), max(run.eager_error, eager_error)
    run.bound = max(run.bound, bound)
    # A norm hides one wrong element among a million.
    largest, eager_largest = largest_error(a, best), largest_error(b, best)
    if error > bound or largest > max(2 * _TIMES_EAGER * eager_largest, 8 * least):
        raise _failed(
            f"{where}: relative error {error:.3g} (largest element {largest:.3g}), where eager "
            f"has {eager_error:.3g} ({eager_largest:.3g}); the bound is {bound:.3g}"
        )


def _check_untouched(subject: Subject, before: list[Any], after: list[Any]) -> None:
    """An input that the signature does not call mutated must be as it was."""
    for entry, old, new in zip(subject.signature.inputs, before, after, strict=True):
        if isinstance(old, torch.Tensor) and not entry.mutated:
            same = torch.equal(bits(old), bits(new))
            if not same:
                raise _failed(f"the artifact writes to the input {entry.name!r}, eager does not")


def _failed(message: str) -> EngineError:
    return EngineError(
        compiler_pb2.REASON_VERIFICATION_FAILED,
        f"the compiled code differs from eager: {message}",
        remedy="nothing was stored; the model runs eager. Please report it with the capture",
        stage="verify",
    )
