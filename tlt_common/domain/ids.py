"""Distinct types for ids and versions, so that they are not mixed up."""

from typing import NewType

RequestId = NewType("RequestId", str)
"""Chosen by the client; sample i of a batch request R is `R/i`."""

WorkerId = NewType("WorkerId", str)
"""Kept across restarts of the same replica."""

PolicyVersion = NewType("PolicyVersion", int)
"""The trainer's step; every token is attributed to one. 0 means the weights the engine started with."""

DrafterVersion = NewType("DrafterVersion", int)
"""Our own counter, never passed to the engine as its weight version. 0 means no drafter."""

Epoch = NewType("Epoch", int)
"""Fencing token of a training lease. 0 means none was ever granted."""
