"""On a host: load the artifact by its key and run it with this process's weights. No tracing.

python examples/fresh_process.py KEY
"""

from __future__ import annotations

import sys
import time

import torch
from model import make_model

from compile_farm import Farm


def main() -> None:
    """Three batches by one artifact, each compared with eager."""
    model = make_model(seed=1)  # other weights than those at the compile
    begin = time.perf_counter()
    with Farm() as farm:
        run = farm.bind(sys.argv[1], model)
    print(f"ready in {(time.perf_counter() - begin) * 1e3:.0f} ms")
    with torch.no_grad():
        for batch in (1, 7, 64):
            tokens = torch.randint(0, 1000, (batch, 16))
            torch.testing.assert_close(run(tokens), model(tokens))
            print(f"batch {batch}: as eager")


if __name__ == "__main__":
    main()
