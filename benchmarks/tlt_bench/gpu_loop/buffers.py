"""
Model outputs in memory that the next pass overwrites, as CUDA graphs return them.

The graphs of target and drafter share one memory pool, so the outputs of a verification may lie where the drafter's
next pass keeps its intermediate values, and logits are written to one buffer for all. Here every pass returns its
outputs in one pool and overwrites those of all passes before it with NaN: whoever reads an output after another pass of
either model reads NaN, or values of that pass.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from tlt_bench.gpu_loop.counting import graph

OUTPUTS = ("hidden_states", "last_hidden_states", "next_token_logits")


@dataclass(slots=True)
class GraphPool:
    """Memory in which all passes return their outputs in turn."""

    _memory: Tensor = field(default_factory=lambda: torch.empty(0))
    _used: int = 0

    def hold(self, made: dict[str, Tensor]) -> dict[str, Tensor]:
        """Overwrite the outputs of earlier passes; return those of this one in the same memory."""
        self._memory[: self._used] = torch.nan
        sizes = {name: -(-one.numel() * one.element_size() // 4) for name, one in made.items()}
        self._used = sum(sizes.values())
        if self._used > len(self._memory):
            self._memory = torch.full((self._used,), torch.nan)  # views of the old memory are poisoned
        held, start = {}, 0
        for name, one in made.items():
            room = self._memory[start : start + sizes[name]]
            held[name] = room.view(one.dtype)[: one.numel()].view(one.shape).copy_(one)
            start += sizes[name]
        return held


_pool = GraphPool()


def forward_into_buffers(original: Callable[..., Any], self: Any, forward_batch: Any, *args: Any, **kw: Any) -> Any:
    """Wrap `ModelRunner.forward`."""
    with graph():
        output = original(self, forward_batch, *args, **kw)
        # The steps of a drafter are one graph, within which what is read is kept; they overwrite what others returned.
        is_draft_step = self.is_draft_worker and forward_batch.forward_mode.is_decode()
        names = () if is_draft_step else OUTPUTS
        made = {name: one for name in names if (one := getattr(output.logits_output, name)) is not None}
        held = _pool.hold(made)
        if held:
            output.logits_output = replace(output.logits_output, **held)
    return output
