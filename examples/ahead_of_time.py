"""Before a deploy: have the model compiled, and print the key that hosts load.

One artifact serves every batch from 1 to 64. The weights stay here, so any will do.
"""

from __future__ import annotations

import sys

from model import make

from compile_farm import Farm


def main() -> None:
    """Progress to stderr, the key to stdout."""
    with Farm() as farm:
        job = farm.submit(**make())
        for event in job.events():
            if event.stage.name:
                print(f"{event.stage.fraction:4.0%} {event.stage.name}", file=sys.stderr)
        print(job.result().key)


if __name__ == "__main__":
    main()
