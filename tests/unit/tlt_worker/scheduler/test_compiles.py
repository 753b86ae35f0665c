"""What torch and Triton compile in a process is counted."""

from collections.abc import Iterator

import pytest
import torch
from triton import knobs

from tlt_worker.scheduler.compiles import Compiles


class Count:
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def compile_begins(self) -> None:
        self.said.append("begins")

    def compile_ends(self) -> None:
        self.said.append("ends")


@pytest.fixture
def count() -> Iterator[Count]:
    """A count that both compilers report to, until the test ends."""
    from torch._dynamo.callback import callback_handler

    before = knobs.runtime.jit_cache_hook, knobs.runtime.jit_post_compile_hook
    found = Count()
    Compiles(found).watch()
    yield found
    callback_handler.start_callbacks.pop()
    callback_handler.end_callbacks.pop()
    knobs.runtime.jit_cache_hook, knobs.runtime.jit_post_compile_hook = before


def test_a_function_that_torch_compiles_counts_once(count: Count) -> None:
    compiled = torch.compile(lambda x: x + 1, backend="eager", dynamic=True)
    compiled(torch.zeros(3))
    assert count.said == ["begins", "ends"]
    compiled(torch.zeros(5))
    assert count.said == ["begins", "ends"]
    compiled(torch.zeros(1))
    assert count.said == ["begins", "ends"] * 2, "a size of 1 is a class of its own"


def test_a_kernel_of_triton_counts_and_the_hook_of_another_still_decides(
    count: Count, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook, after = knobs.runtime.jit_cache_hook, knobs.runtime.jit_post_compile_hook
    assert hook is not None
    assert after is not None
    assert (
        hook(key="k", repr="draw_row[...]", fn=None, compile={}, is_manual_warmup=False, already_compiled=False) is None
    )
    after(key="k", repr="draw_row[...]", fn=None, compile={}, is_manual_warmup=False, already_compiled=False)
    assert count.said == ["begins", "ends"]
    monkeypatch.setattr(knobs.runtime, "jit_cache_hook", lambda **_: True)
    Compiles(count).watch()
    chained = knobs.runtime.jit_cache_hook
    assert chained is not None
    assert chained(key="k", repr="r", fn=None, compile={}, is_manual_warmup=False, already_compiled=False) is True
