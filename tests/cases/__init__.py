"""Public bug reports as small models; README.md says what each holds."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any


@dataclass(frozen=True)
class Case:
    """One report. ``name`` is its file's, "05_overlapping_view_inplace"."""

    name: str
    module: ModuleType

    def make(self) -> tuple[Any, tuple[Any, ...], Any]:
        """(module, inputs, dynamic_shapes or None)."""
        made: tuple[Any, tuple[Any, ...], Any] = self.module.make()
        return made

    def more_inputs(self) -> list[tuple[Any, ...]]:
        """Inputs of further calls on the same compiled module."""
        more = getattr(self.module, "more_inputs", list)
        return list(more())


def all_cases() -> list[Case]:
    """Every case, by file name. Imported under dotted names, which Dynamo needs."""
    names = sorted(path.stem for path in Path(__file__).parent.glob("case_*.py"))
    return [
        Case(name.removeprefix("case_"), importlib.import_module(f"{__name__}.{name}"))
        for name in names
    ]
