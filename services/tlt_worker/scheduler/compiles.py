"""
Observes compilations in this process: functions by torch, kernels by Triton. Used inside SGLang's processes only.

No round ends during a compilation, which must not be taken for a hang. After the warm-up, nothing should be compiled.
C++ and CUDA compilers run as child processes, which the worker observes itself.
"""

from collections.abc import Callable
from typing import Any, Protocol

from tlt_common.telemetry.log import get_logger

log = get_logger(__name__)


class CompileCount(Protocol):
    """Counter of compilations."""

    def compile_begins(self) -> None:
        """Count a compilation that starts."""
        ...

    def compile_ends(self) -> None:
        """Record that it has ended."""
        ...


class Compiles:
    """Reports compilations to `count`, and logs those after the warm-up."""

    def __init__(self, count: CompileCount) -> None:
        self._count = count
        self.is_warm = False
        """Whether the warm-up is over."""

    def watch(self) -> None:
        """Register with both compilers, keeping hooks that are already registered."""
        from torch._dynamo.callback import callback_handler
        from triton import knobs

        callback_handler.register_start_callback(lambda args: self._begin(f"torch {args.compile_id}"))
        callback_handler.register_end_callback(lambda _: self._count.compile_ends())
        runtime: Any = knobs.runtime
        runtime.jit_cache_hook = _both(runtime.jit_cache_hook, self._kernel_begins)
        runtime.jit_post_compile_hook = _both(runtime.jit_post_compile_hook, self._kernel_ends)

    def _begin(self, name: str) -> None:
        self._count.compile_begins()
        if self.is_warm:
            log.warning("compiled_after_warm_up", name=name)

    def _kernel_begins(self, **compiling: Any) -> None:
        self._begin(str(compiling.get("repr", "kernel")).partition("[")[0])

    def _kernel_ends(self, **_: Any) -> None:
        self._count.compile_ends()


def _both(first: Callable[..., Any] | None, second: Callable[..., None]) -> Callable[..., Any]:
    """Return a hook that calls both; Triton uses the result of the first only."""

    def hook(*args: Any, **kw: Any) -> Any:
        second(**kw)
        return first(*args, **kw) if first is not None else None

    return hook
