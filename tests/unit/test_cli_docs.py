"""docs/cli.md says what the command line does."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from compile_farm.capture.export import capture_export
from compile_farm.cli import COMMANDS, main
from compile_farm.cli.factory import load_request

DOC = (Path(__file__).resolve().parents[2] / "docs" / "cli.md").read_text()

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_and_option_is_there(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert f"`{command}`" in DOC
    with pytest.raises(SystemExit):
        main([command, "--help"])
    options = set(re.findall(r"^  (--[a-z-]+)", capsys.readouterr().out, flags=re.MULTILINE))
    assert {option for option in options if f"`{option}" not in DOC} == set()


def test_the_example_can_be_captured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (example,) = re.findall(r"```python\n# model\.py\n(.*?)```", DOC, flags=re.DOTALL)
    (tmp_path / "model.py").write_text(example)
    monkeypatch.setattr(sys, "path", list(sys.path))
    request = load_request(f"{tmp_path / 'model.py'}:make")
    capture = capture_export(request.model, request.args, request.kwargs, request.dynamic_shapes)
    (batch,) = capture.signature.symbols
    assert (batch.minimum, batch.maximum) == (1, 64)
