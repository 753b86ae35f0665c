"""
Counts the points in a round at which the host would wait for a GPU.

On a CPU a tensor's values are at hand, so nothing shows what they cost on a GPU: reading one value makes the host wait
for everything launched before, and so does a copy from or to memory that is not pinned. Every such call is counted here
with its place, by torch's function mode, which sees the calls of Python code whatever device they are for. Tensors that
would be in the host's memory on a GPU too are told apart by how they were made: without a device, or copied to "cpu".
Reading them costs nothing; indexing with them, or assigning them, copies them first.

Calls of the suite's scheduler code count; SGLang's own are reported apart, since its kernels for a CPU read values that
those for a GPU do not. `Tensor.numpy` is for tensors in the host's memory, so it never waits; waiting for an event
does.
"""

import os
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import FrameType
from typing import Any, Self
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakTensorKeyDictionary

READS = frozenset({
    Tensor.item, Tensor.tolist, Tensor.cpu, Tensor.__bool__, Tensor.__int__, Tensor.__float__, Tensor.__complex__,
    Tensor.__index__, Tensor.__contains__, Tensor.__format__, Tensor.__repr__, Tensor.is_nonzero, torch.is_nonzero,
    Tensor.nonzero, torch.nonzero, Tensor.argwhere, torch.argwhere, Tensor.masked_select, torch.masked_select,
    Tensor.unique, torch.unique, Tensor.unique_consecutive, torch.unique_consecutive, torch.bincount, Tensor.bincount,
    torch.equal, Tensor.equal, torch.allclose, Tensor.allclose,
})  # fmt: skip
"""Functions whose result, or its shape, the host has to know."""
COPIES = frozenset({torch.tensor, torch.as_tensor, torch.asarray, torch.from_numpy})
"""Functions that copy from pageable memory if a device is named."""
MAKES = COPIES | {torch.arange, torch.empty, torch.full, torch.ones, torch.rand, torch.zeros}
"""Functions whose result is in the host's memory unless a device is named."""
INDEXING = frozenset({Tensor.__getitem__, Tensor.__setitem__})
PUTTING = frozenset({Tensor.index_put, Tensor.index_put_, torch.index_put, torch.index_put_})

HOST = "cpu"
"""This string means the host, where the copy is not one that returns at once: SGLang also calls the engine's device so.
A `torch.device` is always that of the engine."""
OURS = f"{os.sep}tlt_worker{os.sep}scheduler{os.sep}"
SGLANG = f"{os.sep}sglang{os.sep}"


class Waits(TorchFunctionMode):
    """Counts the waits of the code that runs within it, by place."""

    def __init__(self) -> None:
        super().__init__()
        self.places: Counter[str] = Counter()
        self._host = WeakTensorKeyDictionary()
        """Tensors that are in the host's memory on a GPU too."""
        self.is_on_host = False
        """Whether the call that runs concerns such tensors only."""

    def know(self, tensors: Iterable[Tensor]) -> None:
        """Register tensors as being in host memory."""
        self._host.update(dict.fromkeys(tensors, True))

    def __enter__(self) -> Self:
        """Start counting."""
        super().__enter__()  # type: ignore[no-untyped-call] # torch is untyped here
        self._events = patch.object(torch.cpu.Event, "synchronize", lambda _: self._count())
        self._events.start()
        return self

    def __exit__(self, *args: object) -> None:
        """Stop counting."""
        self._events.stop()
        super().__exit__(*args)  # type: ignore[no-untyped-call] # same

    def _count(self) -> None:
        self.places[place(2)] += 1

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Count a call if it waits, and run it."""
        named = kwargs or {}
        if self._waits(func, args, named):
            self._count()
        is_host = self._makes_host(func, args, named)
        before, self.is_on_host = self.is_on_host, is_host
        try:
            result = func(*args, **named)
        finally:
            self.is_on_host = before
        if isinstance(result, Tensor):
            if is_host:
                self._host[result] = True
            elif result in self._host:
                del self._host[result]
        return result

    def _waits(self, func: Any, args: Sequence[Any], named: Mapping[str, Any]) -> bool:
        if func is Tensor.to:
            return _names_device(args, named) and not named.get("non_blocking") and not self._stays(args, named)
        if func is Tensor.cuda or func is Tensor.copy_:
            other = args[0] if func is Tensor.cuda else args[1]
            return not named.get("non_blocking") and (self._is_host(other) or self._is_host(args[0]))
        if func in READS:
            return not self._is_host(args[0])
        if func in COPIES:
            return named.get("device") is not None
        if func is Tensor.new_tensor:
            return not self._is_host(args[0])
        if func is torch.where:
            return len(args) + len(named) == 1
        if func is torch.repeat_interleave or func is Tensor.repeat_interleave:
            return isinstance(args[1], Tensor) and named.get("output_size") is None
        if func in INDEXING or func in PUTTING:
            return not self._is_host(args[0]) and any(map(self._is_read, (*_parts(args[1]), *args[2:3])))
        return False

    def _is_read(self, part: Any) -> bool:
        """
        Whether using a tensor as an index or as assigned values reads or copies it.

        Masks are read for their size, single integers for their value, and what is on the host is copied.
        """
        if isinstance(part, slice):
            return any(isinstance(end, Tensor) for end in (part.start, part.stop, part.step))
        if isinstance(part, Tensor):
            return part.dtype == torch.bool or self._is_host(part) or (not part.dim() and not part.is_floating_point())
        return isinstance(part, list | np.ndarray)

    def _is_host(self, tensor: Any) -> bool:
        return isinstance(tensor, Tensor) and tensor in self._host

    def _stays(self, args: Sequence[Any], named: Mapping[str, Any]) -> bool:
        """Whether a conversion of a tensor leaves it on the host."""
        return self._is_host(args[0]) and self._makes_host(Tensor.to, args, named)

    def _makes_host(self, func: Any, args: Sequence[Any], named: Mapping[str, Any]) -> bool:
        if func is Tensor.cpu:
            return True
        if func is Tensor.cuda:
            return False
        if func is Tensor.to and _names_device(args, named):
            where = named["device"] if "device" in named else args[1]
            return (
                self._is_host(where) if isinstance(where, Tensor) else where == HOST and not named.get("non_blocking")
            )
        tensors = [one for arg in (*args, *named.values()) for one in _parts(arg) if isinstance(one, Tensor)]
        if not tensors:
            return func in MAKES and named.get("device") is None
        return all(map(self._is_host, tensors))


def _names_device(args: Sequence[Any], named: Mapping[str, Any]) -> bool:
    """Whether arguments of `Tensor.to` name a device, or a tensor whose device is meant."""
    return "device" in named or isinstance(next(iter(args[1:]), None), str | torch.device | Tensor)


def _parts(index: Any) -> Sequence[Any]:
    return index if isinstance(index, tuple) else (index,)


def place(depth: int) -> str:
    """Return file and line of the innermost frame of the suite or of SGLang, at least `depth` calls above."""
    frame: FrameType | None = sys._getframe(depth + 1)  # noqa: SLF001 - the way to the caller without its source
    while frame is not None:
        name = frame.f_code.co_filename
        if OURS in name or SGLANG in name:
            return f"{name}:{frame.f_lineno}"
        frame = frame.f_back
    return ""
