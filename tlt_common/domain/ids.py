"""Numbers and names that must not be mixed up."""

from typing import NewType

RequestId = NewType("RequestId", str)
"""Chosen by the client; sample i of a batch request R is `R/i`."""

WorkerId = NewType("WorkerId", str)
"""Kept over restarts of the same replica."""

PolicyVersion = NewType("PolicyVersion", int)
"""The trainer's step; every token is attributed to one. 0: the weights the engine started with."""

DrafterVersion = NewType("DrafterVersion", int)
"""Our own counter, never handed to the engine as its weight version. 0: no drafter."""

Epoch = NewType("Epoch", int)
"""Fencing token of a training lease. 0: none was ever granted."""
