"""What the compiler did for a key: what was fused into which kernel, the memory it planned, the
candidates with their times, and how far the result is from eager."""

from __future__ import annotations

import argparse

from compile_farm.cli.common import (
    add_farm_arguments,
    open_farm,
    print_json,
    print_table,
    readable_bytes,
    readable_seconds,
    whole_key,
)
from compile_farm.v1 import artifact_pb2

HELP = "what the compiler did for a key"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument("key", metavar="KEY", help="whole, or its first digits if they are unique")
    add_farm_arguments(parser)


def run(given: argparse.Namespace) -> int:
    """Prints the report."""
    with open_farm(given) as farm:
        manifest = farm.artifact(whole_key(given.key, farm)).manifest
    if given.json:
        print_json(manifest)
        return 0
    _print_summary(manifest)
    _print_kernels(manifest.report)
    _print_candidates(manifest.report)
    return 0


def _print_summary(manifest: artifact_pb2.Manifest) -> None:
    from compile_farm.targets import describe
    from compile_farm.v1 import target_pb2

    report, verification = manifest.report, manifest.verification
    effort = target_pb2.Effort.Name(manifest.options.effort).removeprefix("EFFORT_").lower()
    numerics = target_pb2.Numerics.Name(manifest.options.numerics).removeprefix("NUMERICS_")
    print(f"key      {manifest.key}")
    print(f"target   {describe(manifest.target)}")
    print(f"options  effort {effort}, numerics {numerics.lower()}")
    print(f"inputs   {len(manifest.signature.inputs)}, {len(manifest.compiled_outputs)} outputs")
    stages = ", ".join(f"{s.stage} {readable_seconds(s.seconds)}" for s in manifest.stages)
    print(f"stages   {stages}")
    print(
        f"memory   {readable_bytes(report.peak_bytes_planned)} at the peak, as planned; "
        f"{report.buffers_allocated} buffers allocated, {report.buffers_reused} reused"
    )
    reference = verification.reference_precision
    against = "eager" if reference == "same" else f"a {reference} reference"
    print(f"verified against {against}:")
    for run in verification.runs:
        sizes = f" at sizes {list(run.symbols)}" if run.symbols else ""
        print(
            f"  error {run.error:.2g}, eager's own {run.eager_error:.2g}, "
            f"bound {run.bound:.2g}{sizes}"
        )


def _print_kernels(report: artifact_pb2.Report) -> None:
    print()
    rows = [
        (
            kernel.name[:40],
            kernel.kind,
            readable_bytes(kernel.bytes_read),
            readable_bytes(kernel.bytes_written),
            " ".join(op.removeprefix("aten.").removesuffix(".default") for op in kernel.ops)[:100],
        )
        for kernel in report.kernels
    ]
    print_table(rows, ("KERNEL", "KIND", "READS", "WRITES", "FUSED"))


def _print_candidates(report: artifact_pb2.Report) -> None:
    if not report.candidates:
        return
    print(f"\ncandidates, measured as a whole ({report.measured_by}):")
    rows = [
        (
            "*" if one.chosen else "",
            one.name,
            readable_seconds(one.median_seconds) if one.measurements else "-",
            readable_seconds(one.spread_seconds) if one.measurements else "-",
            str(one.measurements),
            one.rejected[:80],
        )
        for one in report.candidates
    ]
    print_table(rows, ("", "CANDIDATE", "MEDIAN", "SPREAD", "CALLS", "REJECTED"))
