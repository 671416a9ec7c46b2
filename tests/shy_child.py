"""A child whose GPU can't be used once it is confined, as a driver might behave that needs a file
which nobody foresaw. Everything else is the real child's.
"""

from __future__ import annotations

import sys

from compiler_service.worker import child
from compiler_service.worker.plan import ChildArguments
from tests import fault_child

if __name__ == "__main__":
    if ChildArguments.from_text(sys.argv[1]).confined:
        sys.exit("no GPU in here")
    faults = child.Compiler(fault_child.warm_up, fault_child.compile_capture)
    sys.exit(child.main(sys.argv[1:], faults))
