"""How much of everything a Capture or a Manifest may have.

In: nothing. Out: numbers, each with its reason. They bound the memory and the time that bytes from
a stranger can cost whoever reads them, and lie far above what a model comes to that Inductor
compiles within the time of a job.
"""

from __future__ import annotations

# Messages and texts in one Capture or Manifest. Two bytes on the wire can become an object of 88
# bytes, so the number of parts decides how much memory parsing takes, not the bytes: at most 270 MB
# beside the bytes themselves. A graph of 20,000 calls with 5,000 weights has 200,000 parts.
MAX_PARTS = 3_000_000
# protobuf's own parser allows 100 messages inside one another.
MAX_MESSAGE_DEPTH = 100

# Of a whole Capture; the inputs of subgraphs count as nodes, since each costs its reader as much.
MAX_NODES = 200_000
MAX_ARGUMENTS = 2_000_000
MAX_SUBGRAPHS = 10_000
MAX_SUBGRAPH_DEPTH = 16
MAX_INPUTS = 50_000
# Solving for a symbol looks at every size, so the time grows with their product.
MAX_SYMBOLS = 1_000
MAX_LIBRARIES = 100

# Sizes, arguments and containers. Two messages a level: half of what protobuf's own parser allows,
# so that no reader recurses further than this.
MAX_DEPTH = 40
MAX_RANK = 64
MAX_INTEGER = 2**62
# A size is evaluated with whole numbers of any length; powers and products grow fast.
MAX_EXPRESSION_NODES = 1_000
MAX_EXPRESSION_BITS = 4_096
MAX_EXPONENT = 8
# All addresses that a process on x86-64 has. Also keeps products of sizes far from overflow.
MAX_TENSOR_BYTES = 2**47

MAX_ITEMS = 100_000
MAX_TREE_PARTS = 100_000
MAX_MODULES = 200_000
MAX_SETTINGS = 2_000
# Names and settings; then fixed values and messages of assertions, which may be a page.
MAX_TEXT = 4_000
MAX_LONG_TEXT = 64 * 1024
