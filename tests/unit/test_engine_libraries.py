"""Which modules a worker loads for operators, and what a graph may then call."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from compile_farm.errors import InvalidGraphError
from compile_farm.schema import check_libraries
from compile_farm.v1 import graph_pb2
from compiler_service.config import ServeConfig
from compiler_service.engine import libraries
from compiler_service.engine.errors import EngineError
from compiler_service.errors import ConfigError


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An installed package, version 1.2, that registers operators under another name than its."""
    (tmp_path / "a_library_of_ops").mkdir()
    (tmp_path / "a_library_of_ops" / "__init__.py").touch()
    (tmp_path / "a_library_of_ops" / "ops.py").write_text(
        "import torch\n"
        "@torch.library.custom_op('namespace_of_ops::twice', mutates_args=())\n"
        "def twice(x: torch.Tensor) -> torch.Tensor:\n"
        "    return x * 2\n"
    )
    info = tmp_path / "a_library_of_ops-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: a-library-of-ops\nVersion: 1.2\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    name = "a_library_of_ops.ops"
    for module in ("a_library_of_ops", name):
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setattr(libraries, "_loaded", {})
    return name


def library(**changed: str) -> graph_pb2.Library:
    given = {"namespace": "namespace_of_ops", "module": "a_library_of_ops.ops", "version": "1.2"}
    return graph_pb2.Library(**{**given, **changed})


def test_a_loaded_library_may_be_called_in_its_version_alone(package: str) -> None:
    with pytest.raises(EngineError, match="does not load"):
        libraries.namespaces_of([library()])
    libraries.load_libraries([package, package])
    assert libraries.namespaces_of([library()]) == {"namespace_of_ops"}
    assert libraries.namespaces_of([]) == frozenset()
    for wrong, words in (
        (library(version="1.3"), "this farm has 1.2"),
        (library(namespace="aten"), "does not load"),
        (library(module="os"), "does not load"),
    ):
        with pytest.raises(EngineError, match=words):
            libraries.namespaces_of([wrong])


def test_a_module_without_operators_is_an_operators_mistake(package: str) -> None:
    with pytest.raises(RuntimeError, match="registers no operators"):
        libraries.load_libraries(["grpc"])
    with pytest.raises(ImportError):
        libraries.load_libraries(["a_library_that_is_nowhere"])


@pytest.mark.parametrize(
    "wrong",
    [
        {"namespace": ""},
        {"namespace": "a.b"},
        {"module": "os; import x"},
        {"module": "a..b"},
        {"module": "x" * 10_000 + "-"},
        {"version": ""},
        {"version": "1 2"},
    ],
)
def test_a_library_with_no_proper_name_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(InvalidGraphError, match="library"):
        check_libraries([library(**wrong)])
    check_libraries([library()])
    with pytest.raises(InvalidGraphError, match="two libraries"):
        check_libraries([library(), library()])


@pytest.mark.parametrize("module", ["", "a b", "a..b", "../evil"])
def test_the_command_line_takes_modules_alone(module: str) -> None:
    with pytest.raises(ConfigError, match="--library"):
        ServeConfig(libraries=(module,))
