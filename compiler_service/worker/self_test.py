"""What a failed self-test means, for the person who runs the worker.

The self-test itself is the child's first compile: a matrix product, a sum and a sine are compiled,
loaded as any host would, run, and compared with eager. Only then the child says hello. In: the
Failure that came instead. Out: a check with the likely cause and what to do.
"""

from __future__ import annotations

from compile_farm.v1 import compiler_pb2
from compiler_service.worker.death import START
from compiler_service.worker.plan import SandboxPlan
from compiler_service.worker.preflight import Check

NAME = "compile, load and run"

# The stage in which the engine loads what it compiled.
_LOADING = "verify"


def explain(failure: compiler_pb2.Failure, plan: SandboxPlan) -> Check:
    """A failed check; ``failure`` is why there was no hello of a child started by ``plan``."""
    stage = failure.stage.removeprefix(START).strip()
    crashed = failure.reason == compiler_pb2.REASON_CRASHED
    loading = stage == _LOADING and failure.reason != compiler_pb2.REASON_VERIFICATION_FAILED
    if loading:
        what = "crashed" if crashed else "failed"
        return Check(
            NAME,
            False,
            f"a small graph was compiled, and {what} when it was loaded or run: {failure.message}",
            "most often the C++ compiler binds libstdc++ statically into shared objects, or links "
            "another one than torch's: set CXX to the distribution's own g++",
        )
    if failure.reason == compiler_pb2.REASON_VERIFICATION_FAILED:
        remedy = "don't use this machine as a worker: it computes something else than eager"
    elif crashed and not stage:
        remedy = "run `python -c 'import torch'` with the worker's interpreter"
    elif failure.reason == compiler_pb2.REASON_COMPILER_ERROR:
        remedy = "see what the compiler says; the worker's log has more of it"
    else:
        remedy = failure.remedy
    if plan.confined and plan.device.startswith("cuda") and not stage:
        remedy += (
            "; if the GPU's driver needs files that the sandbox can't open, --unconfined gives the "
            "sandbox all that its user has: only for graphs of people whom you trust"
        )
    where = f" in the stage {stage!r}" if stage else ""
    return Check(NAME, False, failure.message + where, remedy)
