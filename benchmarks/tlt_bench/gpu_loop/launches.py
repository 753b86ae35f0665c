"""
Counts the kernels that a GPU's host would launch.

At small batches a round takes as long as its launches, so each operator outside CUDA graphs costs some microseconds.
Counted by torch's dispatch mode, which sees operators on any device; a graph counts as one launch. Fused GPU kernels,
such as SGLang's Triton kernels, are counted as the operators they replace, so the number is an upper bound.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from tlt_bench.gpu_loop.waits import Waits, place

NOTHING = ("aten::empty", "aten::lift_fresh", "aten::_local_scalar_dense", "aten::detach", "profiler::")
"""Operators that launch nothing, besides views."""


class Launches(TorchDispatchMode):
    """
    Counts operators that launch something: neither views nor allocations.

    Args:
        waits: Identifies calls that concern the host's memory only, which are not counted. None counts all.
    """

    def __init__(self, waits: Waits | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # torch is partly untyped
        self.places: Counter[str] = Counter()
        self._waits = waits
        self._is_in_graph = False

    @property
    def count(self) -> int:
        """Number of launches so far."""
        return self.places.total()

    @contextmanager
    def graph(self) -> Iterator[None]:
        """Count all launches in the context as one launch."""
        before, self._is_in_graph = self._is_in_graph, True
        self.places["a graph"] += not before
        try:
            yield
        finally:
            self._is_in_graph = before

    def __torch_dispatch__(
        self, func: Any, types: Sequence[Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Count an operator if it launches something, and run it."""
        del types
        is_on_host = self._waits is not None and self._waits.is_on_host
        if not (self._is_in_graph or is_on_host or _launches_nothing(func)):
            self.places[place(1)] += 1
        return func(*args, **(kwargs or {}))


def _launches_nothing(func: Any) -> bool:
    returns = [each.alias_info for each in func._schema.returns]  # noqa: SLF001 - torch's only description of it
    is_view = any(alias is not None and not alias.is_write for alias in returns)
    return is_view or func._schema.name.startswith(NOTHING)  # noqa: SLF001 - same
