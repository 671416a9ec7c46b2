"""Small models that the loading tests run, and their artifacts: really compiled, and signed.

``python -m tests.loadable FOLDER`` compiles all that FOLDER lacks, in a process of its own, since
the tests of loading must not have the compiler imported. The first run takes a minute or two; later
runs find the files under .cache/tests (or COMPILE_FARM_TEST_CACHE), kept by key and by what the
engine was when it built them.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from compile_farm.artifact import digest_of, pack, unpack
from compile_farm.cache import CachedArtifact, LocalCache
from compile_farm.runtime.loaded import LoadedArtifact
from compile_farm.runtime.open import open_artifact
from compile_farm.trust import SIGNATURE_CONTEXT, TrustStore, key_id
from compile_farm.v1 import artifact_pb2

ROOT = Path(__file__).parent.parent
SIGNING_KEY = Ed25519PrivateKey.from_private_bytes(b"key of the loading tests only!!!")
PUBLIC_KEY = SIGNING_KEY.public_key().public_bytes_raw()

Pair = namedtuple("Pair", ["first", "second"])
Example = tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any], Any]


class Affine(torch.nn.Module):
    """Dynamic batch, a fixed argument with a default, one tensor as result."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 4)

    def forward(self, x: torch.Tensor, scale: float = 2.0, mode: str | None = None) -> Any:
        return torch.relu(self.linear(x)) * scale


class Nested(torch.nn.Module):
    """Containers in and out, aliases, a size as result, a fixed flag, a tied weight."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(8, 8, bias=False)
        self.second = torch.nn.Linear(8, 8, bias=False)
        self.second.weight = self.first.weight
        self.offset = torch.full((8,), 0.5)

    def forward(self, x: torch.Tensor, parts: list[torch.Tensor], *, batch: dict[str, Any]) -> Any:
        y = self.second(self.first(x)) + parts[0] * parts[1] + self.offset
        if batch["flag"]:
            y = y + batch["mask"]
        return {
            "pair": Pair(y, y.sum(0)),
            "same": x,
            "head": x[1:, ::2],
            "count": x.shape[0] * 2,
            "nothing": None,
            "list": [y * 2, (y - 1,)],
            "max": torch.max(y, dim=1),
        }


class Cache(torch.nn.Module):
    """Writes to buffers and to an argument."""

    keys: torch.Tensor
    steps: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(2, 16, 4), persistent=False)
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self.project = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, position: torch.Tensor, state: torch.Tensor) -> Any:
        self.keys.index_copy_(1, position, self.project(x))
        self.steps.add_(1)
        state.mul_(2)
        return self.keys.sum(1) + state + self.steps


class Wide(torch.nn.Module):
    """150 weights."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(75)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.layers(x)
        return out


def _affine() -> Example:
    batch = torch.export.Dim("batch", min=1, max=64)
    return Affine(), (torch.randn(3, 8),), {}, ({0: batch},)


def _nested() -> Example:
    batch = torch.export.Dim("batch", min=3, max=32)
    x, parts = torch.randn(4, 8), [torch.randn(4, 8), torch.randn(8)]
    kwargs = {"batch": {"mask": torch.randn(4, 8), "flag": True}}
    shapes = {
        "x": {0: batch},
        "parts": [{0: batch}, None],
        "batch": {"mask": {0: batch}, "flag": None},
    }
    return Nested(), (x, parts), kwargs, shapes


def _cache() -> Example:
    inputs = (torch.randn(2, 1, 4), torch.tensor([3]), torch.randn(2, 4))
    return Cache(), inputs, {}, None


def _wide() -> Example:
    return Wide(), (torch.randn(2, 4),), {}, None


EXAMPLES: dict[str, Callable[[], Example]] = {
    "affine": _affine,
    "nested": _nested,
    "cache": _cache,
    "wide": _wide,
}


def example(name: str, seed: int = 0) -> Example:
    """The model in eval mode with random weights, and arguments for it."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model, args, kwargs, shapes = EXAMPLES[name]()
    return model.eval(), args, kwargs, shapes


def sign(manifest: bytes) -> artifact_pb2.ManifestSignature:
    """As the tests' farm signs."""
    return artifact_pb2.ManifestSignature(
        key_id=key_id(PUBLIC_KEY), ed25519=SIGNING_KEY.sign(SIGNATURE_CONTEXT + manifest)
    )


@functools.cache
def artifact_bytes(name: str) -> bytes:
    """The zip of ``name``, compiled if need be."""
    folder = _folder()
    path = folder / f"{name}.zip"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                command = [sys.executable, "-m", "tests.loadable", str(folder)]
                environment = {
                    "TORCHINDUCTOR_CACHE_DIR": str(folder.parent / "inductor"),
                    **os.environ,
                }
                environment.setdefault("PYTHONWARNINGS", "ignore::FutureWarning")
                subprocess.run(command, check=True, cwd=ROOT, env=environment, timeout=280)
    return path.read_bytes()


@dataclass(frozen=True)
class Opened:
    """An artifact in a cache of its own, opened."""

    cached: CachedArtifact
    loaded: LoadedArtifact


def opened(name: str, folder: Path) -> Opened:
    """Unpacks into a cache in ``folder`` and opens, with all checks."""
    trust = TrustStore([PUBLIC_KEY])
    cached = LocalCache(folder).put(unpack(artifact_bytes(name), trust.verify))
    return Opened(cached, open_artifact(cached, trust))


def _folder() -> Path:
    """Of its own for each state of what decides an artifact's content."""
    base = Path(os.environ.get("COMPILE_FARM_TEST_CACHE") or ROOT / ".cache" / "tests")
    sources = [
        Path(__file__),
        *sorted((ROOT / "compiler_service" / "engine").glob("*.py")),
        *sorted((ROOT / "client" / "compile_farm" / "capture").glob("*.py")),
        ROOT / "client" / "compile_farm" / "key.py",
    ]
    state = hashlib.sha256(torch.__version__.encode())
    for source in sources:
        state.update(source.read_bytes())
    return base / f"artifacts-{state.hexdigest()[:16]}"


def _compile(name: str) -> bytes:
    from compile_farm.capture.export import capture_export
    from compile_farm.key import compute_key
    from compile_farm.targets import host_target
    from compile_farm.v1 import sandbox_pb2, target_pb2
    from compiler_service.engine.compile import compile_capture

    capture = capture_export(*example(name))
    target = host_target("cpu")
    options = target_pb2.Options(effort=target_pb2.EFFORT_FAST, numerics=target_pb2.NUMERICS_STRICT)
    with tempfile.TemporaryDirectory() as folder:
        request = sandbox_pb2.SandboxCompile(
            job_id=name,
            key=compute_key(capture, target, options),
            capture=capture.SerializeToString(deterministic=True),
            target=target,
            options=options,
            output_dir=folder,
        )
        manifest = compile_capture(request, lambda stage: None)
        files = {entry.name: (Path(folder) / entry.name).read_bytes() for entry in manifest.files}
    for entry in manifest.files:
        entry.sha256, entry.size = digest_of(files[entry.name]), len(files[entry.name])
    manifest.created, manifest.builder = int(time.time()), "tests"
    return pack(manifest, files, sign)


def main(folder: Path) -> None:
    """Compiles every example that ``folder`` lacks."""
    for name in EXAMPLES:
        path = folder / f"{name}.zip"
        if not path.exists():
            temporary = path.with_suffix(".new")
            temporary.write_bytes(_compile(name))
            temporary.rename(path)


if __name__ == "__main__":
    # As the tests know the module, so that its classes are found under the name they have there.
    from tests import loadable

    loadable.main(Path(sys.argv[1]))
