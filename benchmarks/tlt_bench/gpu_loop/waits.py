"""
Counts the places of a round at which the host would wait for a GPU.

On a CPU a tensor's values are at hand, so nothing shows what they cost on a GPU: reading one value makes the host wait
for everything launched before. Every such call is counted here with its place, by torch's function mode, which sees the
calls of Python code whatever device they are for. Those of the suite's scheduler code count; SGLang's own are reported
apart, since its kernels for a CPU read values that those for a GPU do not. `Tensor.numpy` is for tensors in the host's
memory, so it never waits; waiting for an event does.
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Self
from unittest.mock import patch

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from tlt_bench.gpu_loop.settings import ROUNDS_VARIABLE
from tlt_worker.scheduler.launched_round import round_of

READS = frozenset({
    Tensor.item, Tensor.tolist, Tensor.cpu, Tensor.__bool__, Tensor.__int__, Tensor.__float__,
    Tensor.__index__, Tensor.nonzero, torch.nonzero, Tensor.masked_select, torch.masked_select, Tensor.unique,
    torch.unique, torch.bincount, Tensor.bincount, torch.equal, Tensor.equal, torch.allclose, Tensor.allclose,
})  # fmt: skip
"""Functions whose result, or its shape, the host has to know."""
COPIES = frozenset({torch.tensor, torch.as_tensor, torch.from_numpy})
"""Functions that copy from pageable memory if a device is named."""
INDEXING = frozenset({Tensor.__getitem__, Tensor.__setitem__})

OURS = f"{os.sep}tlt_worker{os.sep}scheduler{os.sep}"
SGLANG = f"{os.sep}sglang{os.sep}"


class Waits(TorchFunctionMode):
    """Counts the waits of the code that runs within it, by place."""

    def __init__(self) -> None:
        super().__init__()
        self.places: Counter[str] = Counter()

    def __enter__(self) -> Self:
        """Count from here on."""
        super().__enter__()  # type: ignore[no-untyped-call] # torch is untyped here
        self._events = patch.object(torch.cpu.Event, "synchronize", lambda _: self._count())
        self._events.start()
        return self

    def __exit__(self, *args: object) -> None:
        """Stop counting."""
        self._events.stop()
        super().__exit__(*args)  # type: ignore[no-untyped-call] # same

    def _count(self) -> None:
        self.places[_place(sys._getframe(2))] += 1  # noqa: SLF001 - the way to the caller without its source

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Count a call if it waits, and run it."""
        named = kwargs or {}
        if _waits(func, args, named):
            self._count()
        return func(*args, **named)


def count_waits(original: Callable[..., Any], self: Any, batch: Any, *args: Any, **kw: Any) -> Any:
    """Wrap `Scheduler.run_batch`: write a line for each round that decodes."""
    if batch.forward_mode.is_extend() or batch.forward_mode.is_idle():
        return original(self, batch, *args, **kw)
    with Waits() as waits:
        result = original(self, batch, *args, **kw)
    launched = round_of(result)
    if launched is not None and launched.choice is not None:
        line = {
            "arm": launched.choice.arm.name,
            "requests": [req.rid for req in batch.reqs],
            "ours": {place: count for place, count in waits.places.items() if OURS in place},
            "sglang": {place: count for place, count in waits.places.items() if SGLANG in place},
        }
        with Path(os.environ[ROUNDS_VARIABLE]).open("a") as file:
            file.write(json.dumps(line) + "\n")
    return result


def _waits(func: Any, args: Sequence[Any], named: dict[str, Any]) -> bool:
    if func in READS:
        return True
    if func in COPIES:
        return named.get("device") is not None
    if func is Tensor.to:
        return "cpu" in (*args[1:2], named.get("device"))
    if func is torch.where:
        return len(args) + len(named) == 1
    if func is torch.repeat_interleave or func is Tensor.repeat_interleave:
        return isinstance(args[1], Tensor) and named.get("output_size") is None
    return func in INDEXING and _has_mask(args[1])


def _has_mask(index: Any) -> bool:
    """Whether an index is, or contains, a tensor of booleans: its size depends on its values."""
    parts = index if isinstance(index, tuple) else (index,)
    return any(isinstance(part, Tensor) and part.dtype == torch.bool for part in parts)


def _place(frame: FrameType | None) -> str:
    """Return file and line of the innermost frame of the suite or of SGLang."""
    while frame is not None:
        name = frame.f_code.co_filename
        if OURS in name or SGLANG in name:
            return f"{name}:{frame.f_lineno}"
        frame = frame.f_back
    return ""
