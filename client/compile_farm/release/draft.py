"""A release in the making: models captured and compiled, then published together.

In: models with example arguments. Out: a Release that the farm has signed. What the farm has
already is not compiled again, and publishing the same content twice is one release.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from compile_farm.errors import CompileFarmError, InvalidReleaseError
from compile_farm.job import Job
from compile_farm.release.check import SCHEMA_VERSION, ReleaseRef, check_release
from compile_farm.release.methods import as_forward
from compile_farm.release.sources import merged, sources_of
from compile_farm.v1 import graph_pb2, release_pb2

if TYPE_CHECKING:
    import torch

Compile = Callable[[graph_pb2.Capture, str, str], Job]
Publish = Callable[[release_pb2.Release], release_pb2.Release]


@dataclass
class _Part:
    """What was added of one component."""

    type_name: str
    sources: list[list[release_pb2.Source]] = field(default_factory=list)
    jobs: list[tuple[str, Job]] = field(default_factory=list)


class ReleaseDraft:
    """Made by ``Farm.release``; use it from one thread."""

    def __init__(self, ref: ReleaseRef, compile_capture: Compile, publish: Publish) -> None:
        if not ref.revision:
            raise InvalidReleaseError(
                f"the release {ref.name} has no revision",
                remedy=f"name one, as in {ref.name}@2026-12-01 or the commit",
            )
        self.ref = ref
        self._compile = compile_capture
        self._publish = publish
        self._parts: dict[str, _Part] = {}

    def add(
        self,
        model: torch.nn.Module,
        args: tuple[Any, ...],
        kwargs: dict[str, Any] | None = None,
        dynamic_shapes: Any = None,
        *,
        component: str = "",
        method: str = "forward",
        effort: str = "fast",
        numerics: str = "strict",
    ) -> Job:
        """Captures one signature of one entry point and has it compiled; does not wait for it.

        Args:
            model: in the mode (eval or train) in which hosts will run it.
            args, kwargs, dynamic_shapes, effort, numerics: as for ``Farm.submit``.
            component: which part of a pipeline this is; hosts name it in ``Farm.load``.
            method: what is captured, if not ``forward``.

        Raises CaptureError, FarmUnavailableError; InvalidReleaseError where a component's class
        differs from that of an earlier ``add``.
        """
        from compile_farm.capture.export import capture_export
        from compile_farm.capture.frames import files_called

        type_name = type(model).__name__
        part = self._parts.setdefault(component, _Part(type_name))
        if part.type_name != type_name:
            raise InvalidReleaseError(
                f"the component {component!r} is a {part.type_name}, and now a {type_name}",
                remedy="give each model of a release a component of its own",
            )
        with as_forward(model, method), files_called() as called:
            capture = capture_export(model, args, kwargs, dynamic_shapes)
        part.sources.append(sources_of(model, called))
        job = self._compile(capture, effort, numerics)
        part.jobs.append((method, job))
        return job

    def publish(self, timeout: float | None = None) -> release_pb2.Release:
        """Waits for every job, at most ``timeout`` seconds in all, and publishes what came of them.

        Raises what ``Job.result`` raises: nothing is published unless everything was compiled;
        InvalidReleaseError where the revision is there with other content.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        release = release_pb2.Release(
            schema_version=SCHEMA_VERSION, name=self.ref.name, revision=self.ref.revision
        )
        for name, part in self._parts.items():
            release.components.add(
                name=name, type_name=part.type_name, sources=merged(part.sources)
            )
            known: set[tuple[str, str]] = set()
            for method, job in part.jobs:
                left = None if deadline is None else max(deadline - time.monotonic(), 0.0)
                entry = _entry(name, method, job, left)
                if (method, entry.key) not in known:
                    known.add((method, entry.key))
                    release.entries.append(entry)
        if not release.entries:
            raise CompileFarmError(f"the release {self.ref} is empty", remedy="add(model, args)")
        check_release(release)
        return self._publish(release)


def _entry(
    component: str, method: str, job: Job, timeout: float | None
) -> release_pb2.ReleaseEntry:
    artifact = job.result(timeout)
    manifest = artifact.manifest
    return release_pb2.ReleaseEntry(
        component=component,
        method=method,
        key=artifact.key,
        digest=artifact.digest,
        target=manifest.target,
        options=manifest.options,
        components=manifest.components,
    )
