"""Which Python files a model's calls run through while it is captured.

In: a capture, run inside ``files_called``. Out: the files of every function between the model's
``forward`` and a call of torch: helpers in other modules, whose lines torch.export's own notes in
the graph leave out.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from torch.overrides import TorchFunctionMode

_PACKAGE = str(Path(__file__).parents[1])


@contextmanager
def files_called() -> Iterator[set[str]]:
    """The set grows inside."""
    files: set[str] = set()
    with _FrameWatch(files):
        yield files


class _FrameWatch(TorchFunctionMode):
    def __init__(self, files: set[str]) -> None:
        super().__init__()
        self._files = files

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        frame: FrameType | None = sys._getframe(1)
        # Other watchers of a capture come first.
        while frame is not None and frame.f_code.co_name == "__torch_function__":
            frame = frame.f_back
        # Outwards to our own frame around the model's forward (writes_of): who called for the
        # capture is no part of the model, and what torch.export calls by itself isn't either.
        passed = []
        while frame is not None and not frame.f_code.co_filename.startswith(_PACKAGE):
            passed.append(frame.f_code.co_filename)
            frame = frame.f_back
        if frame is not None and frame.f_code.co_name == "forward":
            self._files.update(passed)
        return func(*args, **(kwargs or {}))
