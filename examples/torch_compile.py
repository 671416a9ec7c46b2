"""One line changed: torch.compile with the farm as its backend.

The first calls run eager while the farm compiles; then the artifact takes over. In the next process
the farm has it, and the first call runs it.
"""

from __future__ import annotations

import time

import torch
from model import make_model

from compile_farm import compiled_graphs


def main() -> None:
    """Calls the model until the artifact runs it."""
    model = make_model()
    tokens = torch.randint(0, 1000, (4, 16))
    compiled = torch.compile(model, backend="compile_farm")
    with torch.no_grad():
        while True:
            scores = compiled(tokens)
            (graph,) = compiled_graphs()
            print(f"{graph.state}: {scores[0].tolist()} {graph.reason}", flush=True)
            if graph.state != "compiling":
                break
            time.sleep(1)
        torch.testing.assert_close(compiled(tokens), model(tokens))


if __name__ == "__main__":
    main()
