"""
Outputs of decoding and verification in memory that the next round overwrites, as CUDA graphs return them.

All shapes share one pool per model and output, poisoned with NaN before each round: whoever reads a round's outputs
after the launch of the next one reads NaN, or the next round's values.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

OUTPUTS = ("hidden_states", "last_hidden_states", "next_token_logits")
POOL_VALUES = 2**22


@dataclass(slots=True)
class BufferPool:
    """Memory for one output of one model."""

    _memory: Tensor = field(default_factory=lambda: torch.full((POOL_VALUES,), torch.nan))
    _used: int = 0

    def poison(self) -> None:
        """Overwrite the latest output."""
        self._memory[: self._used] = torch.nan

    def hold(self, made: Tensor) -> Tensor:
        """Return a view of the pool with the values of `made`."""
        self._used = made.numel()
        return self._memory.view(made.dtype)[: self._used].view(made.shape).copy_(made)


_pools = {(is_draft, name): BufferPool() for is_draft in (False, True) for name in OUTPUTS}


def forward_into_buffers(original: Callable[..., Any], self: Any, forward_batch: Any, *args: Any, **kw: Any) -> Any:
    """Wrap `ModelRunner.forward`."""
    mode = forward_batch.forward_mode
    # Prompts run without graphs; the steps of a drafter are one graph, within which nothing is overwritten.
    is_target_round = not self.is_draft_worker and (mode.is_target_verify() or mode.is_decode())
    if not (is_target_round or mode.is_draft_extend_v2()):
        return original(self, forward_batch, *args, **kw)
    for name in OUTPUTS:
        _pools[self.is_draft_worker, name].poison()
    output = original(self, forward_batch, *args, **kw)
    made = {name: getattr(output.logits_output, name) for name in OUTPUTS}
    held = {name: _pools[self.is_draft_worker, name].hold(one) for name, one in made.items() if one is not None}
    output.logits_output = replace(output.logits_output, **held)
    return output
