"""Users' files: what a factory may give, and how each mistake in one is told."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from compile_farm.cli.common import UsageError
from compile_farm.cli.factory import load_request

HEAD = "import torch\nmodel = torch.nn.Linear(4, 2)\nx = torch.ones(1, 4)\n"


@pytest.fixture(autouse=True)
def imports_undone() -> Iterator[None]:
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name.startswith(("_factory_", "user_package", "neighbour")):
            del sys.modules[name]


def written(folder: Path, body: str, name: str = "model.py") -> str:
    (folder / name).write_text(HEAD + body)
    return f"{folder / name}:make"


@pytest.mark.parametrize(
    "result",
    [
        "(model, (x,))",
        "(model, [x], {})",
        "{'model': model, 'args': (x,)}",
        "{'model': model, 'args': (x,), 'kwargs': None, 'dynamic_shapes': None}",
    ],
)
def test_every_form_gives_the_same_request(tmp_path: Path, result: str) -> None:
    request = load_request(written(tmp_path, f"def make(): return {result}\n"))
    assert isinstance(request.model, torch.nn.Linear)
    assert [tuple(arg.shape) for arg in request.args] == [(1, 4)]
    assert isinstance(request.args, tuple)
    assert request.kwargs == {}
    assert request.dynamic_shapes is None


def test_keywords_and_dynamic_shapes_are_kept(tmp_path: Path) -> None:
    body = "def make(): return dict(model=model, args=(), kwargs={'input': x}, dynamic_shapes=[1])"
    request = load_request(written(tmp_path, body))
    assert list(request.kwargs) == ["input"]
    assert request.dynamic_shapes == [1]


def test_a_file_finds_its_neighbours_and_its_own_module(tmp_path: Path) -> None:
    (tmp_path / "neighbour.py").write_text("SIZE = 3\n")
    body = (
        "import sys, neighbour\n"
        "def make():\n"
        "    assert sys.modules[__name__].make is make\n"
        "    return torch.nn.Linear(4, neighbour.SIZE), (x,)\n"
    )
    assert load_request(written(tmp_path, body)).model.out_features == 3


def test_a_file_named_like_a_library_does_not_replace_it(tmp_path: Path) -> None:
    import json

    load_request(written(tmp_path, "def make(): return model, (x,)\n", name="json.py"))
    assert sys.modules["json"] is json


def test_a_function_of_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "user_package").mkdir()
    (tmp_path / "user_package" / "__init__.py").write_text("")
    written(tmp_path / "user_package", "def make(): return model, (x,)\n", name="net.py")
    monkeypatch.chdir(tmp_path)
    assert isinstance(load_request("user_package.net:make").model, torch.nn.Linear)


@pytest.mark.parametrize("where", ["model.py", ":make", "model.py:", "model.py:not a name", ""])
def test_what_is_no_place_is_refused(where: str) -> None:
    with pytest.raises(UsageError, match=r"is not FILE\.py:FACTORY"):
        load_request(where)


def test_a_missing_file_and_a_missing_package(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no file .*absent\.py"):
        load_request(f"{tmp_path}/absent.py:make")
    with pytest.raises(UsageError, match=r"importing absent_package\.net raised ModuleNotFound"):
        load_request("absent_package.net:make")


def test_a_missing_function_is_told_with_those_that_exist(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no function 'make'") as caught:
        load_request(written(tmp_path, "def build(): pass\n"))
    assert "build" in caught.value.remedy


@pytest.mark.parametrize(
    ("body", "words", "line"),
    [
        ("def make():\n    return torch.ones(2) @ torch.ones(3)\n", "raised RuntimeError", 5),
        ("def make():\n    raise SystemExit(3)\n", "raised SystemExit: 3", 5),
        ("1 / 0\n", "raised ZeroDivisionError", 4),
        ("def make():\n    return torch.nn.Linear(2, 'x'), ()\n", "raised TypeError", 5),
    ],
)
def test_an_error_of_theirs_is_told_with_their_line(
    tmp_path: Path, body: str, words: str, line: int
) -> None:
    where = written(tmp_path, body)
    with pytest.raises(UsageError, match=words) as caught:
        load_request(where)
    file = where.removesuffix(":make")
    assert f"{file}, line {line}: {body.splitlines()[line - 4].strip()}" in caught.value.message


def test_a_syntax_error_is_told_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"SyntaxError: .*model\.py, line 5\)\n  return return"):
        load_request(written(tmp_path, "def make():\n    return return\n"))


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ("None", "gave a NoneType"),
        ("model", "gave a Linear"),
        ("(model,)", "gave a tuple of 1"),
        ("{'model': model}", "gave a dict with the keys model \\("),
        ("{'model': model, 'args': (), 'shapes': 1}", "gave a dict with the keys"),
        ("(model, x)", "args that make.. gave are a Tensor"),
        ("(model, (x,), x)", "kwargs that make.. gave are a Tensor"),
        ("(make, (x,))", "the model that make.. gave is a function"),
    ],
)
def test_a_result_of_another_form_is_refused(tmp_path: Path, result: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        load_request(written(tmp_path, f"def make(): return {result}\n"))
    assert caught.value.remedy
