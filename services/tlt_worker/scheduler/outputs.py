"""
Results of a round that training uses: hidden states of the target. Used inside SGLang's processes only.

An EAGLE-3 drafter reads other states than its training targets are made from, so the last state is kept as well. The
target computes it anyway; it is joined to the others only in the copied rows.

Written against SGLang 0.5.23: `layers/logits_processor.py`, `speculative/eagle_worker_common.py`.

Shapes: R rows of a round, C copied rows, B requests, D longest accepted path, L elements the drafter reads, H hidden
size, K elements of a captured state: L with EAGLE, L + H with EAGLE-3.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tlt_common.errors import EngineError
from tlt_worker.scheduler.captured_rows import Chosen
from tlt_worker.scheduler.sent import sent


def keep_last_states(model: Any) -> None:
    """
    Make a target that returns some layers' states also return its last states, including from CUDA graphs.

    Call it before graphs are captured. Sets an attribute, since SGLang's option excludes drafters.

    Raises:
        EngineError: The model computes its logits in another way.
    """
    found = [module for module in model.modules() if hasattr(module, "keep_last_hidden_states")]
    if not found:
        raise EngineError(f"{type(model).__name__} has no module that returns hidden states; accepted: SGLang's models")
    for module in found:
        module.keep_last_hidden_states = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """The states of one round on the device, in memory that the next pass of either model overwrites."""

    read: Tensor
    """
    [R, L], the states the drafter reads. In a decoding round, each request's rows start with the accepted path.
    """
    last: Tensor | None = None
    """[R, H], the last states if `read` holds others, in the order of computation."""
    path: Tensor | None = None
    """[B, D] rows in `last` of each request's accepted path, negative beyond its end; None for the first rows."""
    nodes: int = 1
    """Rows per request in a decoding round."""

    @classmethod
    def of(cls, result: Any) -> "Outputs | None":
        """Return the states in a result of SGLang's, or None if it has none."""
        made = result.logits_output
        if made is None or made.hidden_states is None:
            return None
        nodes = result.speculative_num_draft_tokens or 1
        return cls(read=made.hidden_states, last=made.last_hidden_states, path=result.accept_index, nodes=nodes)

    def copied(self, rows: Sequence[Chosen]) -> Tensor:
        """Return a copy [C, K] of the selected rows, on the current stream, without waiting for the device."""
        if sum(one.count for one in rows) == len(self.read):  # all, in order
            read_CL = self.read if self.last is not None else self.read.clone()
            index = None
        else:
            at = [row for one in rows for row in range(one.row, one.row + one.count)]
            index = sent(at, self.read.device, torch.int64)
            read_CL = self.read.index_select(0, index)
        if self.last is None:
            return read_CL
        if self.path is not None and self.path.shape[1] < self.nodes:
            # SGLang moves the accepted path of a tree to the front of `read` alone.
            index = self._accepted(rows, self.path)
        last_CH = self.last if index is None else self.last.index_select(0, index)
        return torch.cat((read_CL, last_CH), dim=-1)

    def _accepted(self, rows: Sequence[Chosen], path_BD: Tensor) -> Tensor:
        places = sent([one.place for one in rows], path_BD.device, torch.int64)
        depth = rows[0].count
        # What lies beyond the end of a path is not used.
        return path_BD.index_select(0, places)[:, :depth].clamp(min=0).flatten().to(torch.int64)
