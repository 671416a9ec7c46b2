"""Keys of real models, in this process, in another one and on other Pythons.

Captured both ways, by torch.export and through torch.compile: what says nothing of the compile
leaves the key alone, and what changes the compile moves it.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, cast

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from torch import nn
from torch._subclasses import FakeTensorMode

from compile_farm import libraries
from compile_farm.capture.aot import AotCapture
from compile_farm.capture.encode import tensor_spec
from compile_farm.capture.export import capture_export
from compile_farm.capture.expressions import SymbolTable
from compile_farm.key import compute_key, key_components, key_of
from compile_farm.targets import host_target
from compile_farm.v1 import graph_pb2
from tests.captures import dynamic_capture, options, target
from tests.generated import captures

Key = Callable[..., str]
_ROOT = Path(__file__).parents[2]

# Written to a file for each process; what is in braces a person may call as they like.
_SOURCE = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.norm = nn.Linear(4, 4), nn.LayerNorm(4, eps=1e-5)
        self.drop = nn.Dropout(0.1)
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x, scale: float = 2.0):
        self.count.add_(1){gap}
        {hidden} = self.drop(self.layer(x)).relu(){gap}
        {other} = torch.cat([{hidden}, x.sin()]) * scale
        {mask} = torch.rand_like({other}) > 0.5{gap}
        with torch.autocast("cpu", dtype=torch.bfloat16):
            {product} = {other} @ {other}.T
        return {{"sum": self.norm({hidden}) + self.count, "product": {product}, "mask": {mask}}}
"""
_PLAIN = {name: name for name in ("hidden", "other", "mask", "product")} | {"gap": ""}
_RENAMED = {"hidden": "a1", "other": "zz", "mask": "self_", "product": "_é", "gap": "\n\n"}


def _by_export(model: nn.Module, *args: Any, dims: Any = None) -> graph_pb2.Capture:
    shapes = None if dims is None else ({0: torch.export.Dim("n", **dims)},)
    return capture_export(model, args, dynamic_shapes=shapes)


def _by_compile(model: nn.Module, *args: Any, dims: Any = None) -> graph_pb2.Capture:
    found: list[AotCapture] = []

    def backend(module: torch.fx.GraphModule, examples: Sequence[Any]) -> Any:
        found.append(AotCapture(module, examples))
        return found[-1].run_wrapped

    torch._dynamo.reset()
    if dims is not None:
        torch._dynamo.mark_dynamic(args[0], 0, **dims)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        torch.compile(model, backend=backend)(*args)
    return found[-1].capture


_WAYS = {"export": _by_export, "compile": _by_compile}


@pytest.fixture(params=list(_WAYS))
def key(request: pytest.FixtureRequest) -> Iterator[Key]:
    """The key of a model with these arguments, captured in one of the two ways."""

    def compute(model: nn.Module, *args: Any, **more: Any) -> str:
        return compute_key(_WAYS[request.param](model, *args, **more), target(), options())

    yield compute
    torch._dynamo.reset()


def keys_of(path: str, values: dict[str, str], name: str) -> dict[str, str]:
    """The keys of Block in both ways, from a source file written to ``path``."""
    Path(path).write_text(_SOURCE.format(**values))
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = {}
    for training, dims in ((False, {"min": 2, "max": 64}), (True, None)):
        for way, capture in _WAYS.items():
            message = capture(module.Block().train(training), torch.randn(8, 4), dims=dims)
            found[f"{way} {training}"] = compute_key(message, host_target("cpu"), options())
    return found


_CHILD = """
import json, os, platform, socket, sys
for patched in (socket, platform):
    patched.gethostname = patched.node = lambda: "another-host"
from tests.unit.test_key_models import _RENAMED, keys_of
print(json.dumps(keys_of(sys.argv[1], _RENAMED, "other_module")))
"""


def test_the_same_model_elsewhere_has_the_same_keys(tmp_path: Path) -> None:
    """Another process, host, folder, file, seed of hashes, environment; other names and lines."""
    folder = tmp_path / "another folder"
    folder.mkdir()
    noise = {"PYTHONHASHSEED": "4242", "HOSTNAME": "another-host", "LANG": "de_DE.UTF-8"}
    noise |= {"POD_NAME": "worker-7", "OMP_NUM_THREADS": "1", "TZ": "Asia/Tokyo", "RANK": "3"}
    noise |= {"CUDA_VISIBLE_DEVICES": "3", "HOME": str(folder), "USER": "somebody"}
    child = subprocess.Popen(
        [sys.executable, "-c", _CHILD, str(folder / "another_file.py")],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(_ROOT), **noise},
        stdout=subprocess.PIPE,
        text=True,
    )
    here = keys_of(str(tmp_path / "file.py"), _PLAIN, "a_module")
    there, _ = child.communicate(timeout=240)
    assert child.returncode == 0
    assert json.loads(there) == here
    # Ways, modes and ranges are all told apart.
    assert len(set(here.values())) == len(here) == 4


def _linear(**more: Any) -> nn.Linear:
    return nn.Linear(4, 4, **more).eval()


def test_weights_do_not_move_the_key(key: Key) -> None:
    assert key(_linear(), torch.randn(2, 4)) == key(_linear(), torch.ones(2, 4))


def test_sizes_dtypes_and_strides_move_the_key(key: Key) -> None:
    keys = [
        key(_linear(), torch.randn(2, 4)),
        key(_linear(), torch.randn(3, 4)),
        key(_linear(), torch.randn(2, 2, 4)),
        key(_linear(), torch.randn(4, 2).T),
        key(_linear(dtype=torch.bfloat16), torch.randn(2, 4, dtype=torch.bfloat16)),
        key(_linear(bias=False), torch.randn(2, 4)),
    ]
    assert len(set(keys)) == len(keys)


def test_a_dynamic_range_moves_the_key(key: Key) -> None:
    ranges = [None, {"min": 2, "max": 64}, {"min": 2, "max": 32}, {"min": 4, "max": 64}]
    keys = [key(_linear(), torch.randn(8, 4), dims=dims) for dims in ranges]
    assert len(set(keys)) == len(keys)
    # Another example of the same range is only another hint.
    assert key(_linear(), torch.randn(16, 4), dims=ranges[1]) == keys[1]


def test_the_mode_and_settings_of_modules_move_the_key(key: Key) -> None:
    def drop(p: float) -> nn.Module:
        return nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(p))

    x = torch.randn(3, 4)
    models = [
        drop(0.1).eval(),
        drop(0.1).train(),
        drop(0.2).train(),
        nn.LayerNorm(4, eps=1e-5),
        nn.LayerNorm(4, eps=1e-6),
    ]
    keys = [key(model, x) for model in models]
    assert len(set(keys)) == len(keys)


class _Function(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


def _cast(x: torch.Tensor, **how: Any) -> torch.Tensor:
    with torch.autocast("cpu", **how):
        y = x @ x
    return y @ x.to(y.dtype)


def test_regions_of_autocast_move_the_key(key: Key) -> None:
    ways: list[dict[str, Any]] = [
        {"dtype": torch.bfloat16},
        {"dtype": torch.float16},
        {"dtype": torch.bfloat16, "enabled": False},
    ]
    keys = [key(_Function(functools.partial(_cast, **way)), torch.randn(4, 4)) for way in ways]
    assert len(set(keys)) == len(keys)


def test_the_order_of_random_draws_moves_the_key(key: Key) -> None:
    def one(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        a = torch.rand_like(x)
        return a, torch.randn_like(x)

    def other(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        b = torch.randn_like(x)
        return torch.rand_like(x), b

    assert key(_Function(one), torch.ones(4)) != key(_Function(other), torch.ones(4))


def test_which_of_two_equal_tensors_is_written_moves_the_key() -> None:
    """torch.export leaves writes as they are: these four graphs have the same calls."""

    def two(x: torch.Tensor, written: int, order: slice) -> list[torch.Tensor]:
        pair = [torch.zeros_like(x), torch.zeros_like(x)]
        pair[written][0] = 1
        return pair[order]

    def one(x: torch.Tensor) -> list[torch.Tensor]:
        a = torch.zeros_like(x)
        a[0] = 1
        return [a, a]

    def of(function: Callable[..., Any]) -> str:
        capture = capture_export(_Function(function), (torch.ones(4),))
        return compute_key(capture, target(), options())

    first = of(lambda x: two(x, 0, slice(None)))
    second = of(lambda x: two(x, 1, slice(None)))
    assert len({first, second, of(one)}) == 3
    # To write to the second and return both turned round is the same graph, with other names.
    assert of(lambda x: two(x, 1, slice(None, None, -1))) == first


def test_the_bytes_of_a_constant_move_the_key() -> None:
    def of(number: float) -> str:
        model = _Function(lambda x: x + torch.tensor([1.0, number]))
        return compute_key(capture_export(model, (torch.ones(2),)), target(), options())

    assert of(2.0) == of(2.0) != of(3.0)


def test_the_index_of_a_device_does_not_enter() -> None:
    with FakeTensorMode():
        specs = [tensor_spec(torch.empty(2, device=f"cuda:{n}"), SymbolTable()) for n in (0, 1)]
    assert specs[0] == specs[1]

    def of(device: str) -> str:
        model = _Function(lambda x: (x + 1, torch.zeros(2, device=device)))
        return compute_key(capture_export(model, (torch.ones(2),)), target(), options())

    assert of("cpu") == of("cpu:0")


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """Installs a library with an operator in the given version; gives its module."""
    package = tmp_path / "library_in_a_key"
    package.mkdir()
    (package / "__init__.py").write_text(
        "import torch\n"
        "@torch.library.custom_op('library_in_a_key::twice', mutates_args=())\n"
        "def twice(x: torch.Tensor) -> torch.Tensor:\n"
        "    return x * 2\n"
        "@twice.register_fake\n"
        "def _(x: torch.Tensor) -> torch.Tensor:\n"
        "    return torch.empty_like(x)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    def install(version: str) -> Any:
        info = tmp_path / "library_in_a_key-0.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: library-in-a-key\nVersion: {version}\n"
        )
        libraries.version_of.cache_clear()
        importlib.invalidate_caches()
        return importlib.import_module("library_in_a_key")

    yield install
    sys.modules.pop("library_in_a_key", None)
    libraries.version_of.cache_clear()


def test_the_version_of_a_library_moves_the_key(key: Key, library: Callable[[str], Any]) -> None:
    def of(version: str) -> str:
        module = library(version)
        return key(_Function(lambda x: module.twice(x)), torch.ones(2))

    assert of("1.2") != of("1.3")


_SERVER = """
import sys
try:
    import google.protobuf.descriptor_pool
except Exception as error:
    sys.exit(print(f"protobuf does not run here: {error!r}"))
from compile_farm.key import compute_key, key_components, key_of
from compile_farm.schema import parse_capture
from compile_farm.v1 import target_pb2
assert "torch" not in sys.modules
target = target_pb2.Target.FromString(bytes.fromhex(sys.argv[1]))
options = target_pb2.Options.FromString(bytes.fromhex(sys.argv[2]))
print("ready", flush=True)
for line in sys.stdin:
    print(compute_key(parse_capture(bytes.fromhex(line)), target, options), flush=True)
"""


def _interpreters() -> dict[int, str]:
    """Other Pythons of this machine, by the minor version; the key needs 3.10."""
    found = {}
    for minor in range(10, 20):
        paths = [shutil.which(f"python3.{minor}") or ""]
        paths += map(str, Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python"))
        # pyenv's shims are there for versions that it does not start.
        real = [path for path in paths if path and "/shims/" not in path]
        if real and minor != sys.version_info.minor:
            found[minor] = real[0]
    return found


@pytest.fixture(scope="module")
def other_pythons(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Any]]:
    """The oldest and the newest other Python, which answer a line with a capture by its key.

    They take protobuf's files from here, in pure Python, since its extension is for this one.
    """
    folder = tmp_path_factory.mktemp("protobuf")
    google = importlib.util.find_spec("google.protobuf")
    assert google is not None
    assert google.origin is not None
    (folder / "google").symlink_to(Path(google.origin).parents[1])
    environment = {
        "PYTHONPATH": f"{_ROOT / 'client'}:{folder}",
        "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python",
        "PYTHONHASHSEED": "5",
    }
    arguments = [target().SerializeToString().hex(), options().SerializeToString().hex()]
    versions = _interpreters()
    started = [
        subprocess.Popen(
            [versions[minor], "-B", "-c", _SERVER, *arguments],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for minor in sorted({min(versions), max(versions)} if versions else ())
    ]
    answers = [cast(IO[str], each.stdout).readline() for each in started]
    able = [
        each
        for each, answer in zip(started, answers, strict=True)
        if not answer.startswith("protobuf")
    ]
    if not able:
        pytest.skip(f"no other Python that can: {answers or 'none from 3.10 on is here'}")
    yield able
    for each in started:
        each.communicate(timeout=60)
        assert each.returncode == 0


@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(capture=captures())
def test_other_pythons_compute_the_same_key(
    other_pythons: list[subprocess.Popen[str]], capture: graph_pb2.Capture
) -> None:
    for one in (capture, dynamic_capture()):
        line = one.SerializeToString(deterministic=True).hex()
        for process in other_pythons:
            cast(IO[str], process.stdin).write(line + "\n")
            cast(IO[str], process.stdin).flush()
        expected = compute_key(one, target(), options())
        answers = {cast(IO[str], each.stdout).readline().strip() for each in other_pythons}
        assert answers == {expected}


def test_the_example_in_the_specification() -> None:
    """Its program needs nothing of ours, and gives the digests of the table and of key.py."""
    page = (_ROOT / "docs" / "keys.md").read_text()
    program = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    assert program is not None
    names: dict[str, Any] = {}
    exec(program[1], names)
    table = dict(re.findall(r"^\| `(\w+)` \| `([0-9a-f]{64})` \|$", page, re.MULTILINE))
    assert len(table) == 9
    assert {name: names[name].hex() for name in table} == table
    components = key_components(dynamic_capture(), target(), options())
    for name in ("graph", "signature", "calling_convention", "target", "options"):
        assert table[name] == getattr(components, name)
    assert table["key"] == key_of(components)
    assert f"`KEY_VERSION` is {components.version}." in page
