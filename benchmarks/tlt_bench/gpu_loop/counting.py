"""Counts the waits and launches of a GPU's host in each decoding round of an engine; see `waits`, `launches`."""

import json
import os
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from torch import Tensor

from tlt_bench.gpu_loop.launches import Launches
from tlt_bench.gpu_loop.settings import LAUNCHES_VARIABLE, ROUNDS_VARIABLE
from tlt_bench.gpu_loop.waits import OURS, SGLANG, Waits
from tlt_worker.scheduler.launched_round import round_of

STOCK = "stock"
"""Written as the arm of an engine without the suite."""


class RoundCounter:
    """
    Counts from the first round on, in the thread that runs it.

    A round is written when the next one begins: it includes what the scheduler launches between them.
    """

    def __init__(self) -> None:
        self.waits = Waits()
        self.launches = Launches(self.waits)
        self._is_counting = False
        self._line: dict[str, Any] | None = None

    def begin(self, *, decodes: bool) -> None:
        """Write the previous round if this one directly follows it, and count the next one."""
        if not self._is_counting:
            self._is_counting = True
            self.waits.__enter__()
            if LAUNCHES_VARIABLE in os.environ:
                self.launches.__enter__()  # type: ignore[no-untyped-call] # torch is partly untyped
        if self._line is not None and decodes:
            self._line["launches"] = self.launches.places
            with Path(os.environ[ROUNDS_VARIABLE]).open("a") as file:
                file.write(json.dumps(self._line) + "\n")
        self._line, self.launches.places, self.waits.places = None, Counter(), Counter()

    def end(self, batch: Any, result: Any) -> None:
        """Record launches as a round."""
        launched, places = round_of(result), self.waits.places
        self._line = {
            "arm": STOCK if launched is None or launched.choice is None else launched.choice.arm.name,
            "requests": [req.rid for req in batch.reqs],
            "ours": {place: count for place, count in places.items() if OURS in place},
            "sglang": {place: count for place, count in places.items() if SGLANG in place},
        }


_counter = RoundCounter()


def count_round(original: Callable[..., Any], self: Any, batch: Any, *args: Any, **kw: Any) -> Any:
    """Wrap `Scheduler.run_batch`: write a line for each round that decodes and is followed by another."""
    decodes = not (batch.forward_mode.is_extend() or batch.forward_mode.is_idle())
    _counter.begin(decodes=decodes)
    _counter.waits.know(_on_host(batch))
    result = original(self, batch, *args, **kw)
    if decodes:
        _counter.end(batch, result)
    return result


def as_graph(original: Callable[..., Any], *args: Any, **kw: Any) -> Any:
    """Wrap an operation that is a single graph on a GPU."""
    with graph():
        return original(*args, **kw)


def graph() -> AbstractContextManager[None]:
    """Return the context of an operation that is a single graph on a GPU."""
    return _counter.launches.graph() if LAUNCHES_VARIABLE in os.environ else nullcontext()


def _on_host(batch: Any) -> list[Tensor]:
    """Return the tensors of a batch that a GPU's host also holds. On a CPU some are identical to the device's."""
    tensors = {name: one for name, one in vars(batch).items() if isinstance(one, Tensor)}
    others = {id(one) for name, one in tensors.items() if not name.endswith("_cpu")}
    return [one for name, one in tensors.items() if name.endswith("_cpu") and id(one) not in others]
