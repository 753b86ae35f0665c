"""
Completes a block drafter's cache from the backlog. Imported inside SGLang's processes only.

The drafter's context is not computed by its layers but projected from the target's states, position by position.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tlt_worker.scheduler.drafts.backlog import Stretch
from tlt_worker.scheduler.drafts.completion import PADDING_SLOT, CacheCompletion
from tlt_worker.scheduler.sent import sent


class ContextCompletion(CacheCompletion):
    """Projects the hidden states of skipped positions."""

    def _pass(self, batch: Any, parts: list[Stretch]) -> None:
        rows = [batch.reqs[one.place].kv.req_pool_idx for one in parts]
        slots_K = torch.cat(
            [self.slot_table[row, one.start : one.end] for row, one in zip(rows, parts, strict=True)]
        ).to(torch.int64)
        kept_K = self.backlog.rows(slots_K)
        hidden_KH, _ = self.backlog.at(kept_K)
        self.runner.model.write_context(
            hidden_KH,
            positions_of(parts, slots_K.device),
            torch.where(kept_K >= 0, slots_K, PADDING_SLOT),
            self.runner.token_to_kv_pool,
        )
        self.backlog.drop(slots_K)
        self._count += len(slots_K)


def positions_of(parts: Sequence[Stretch], device: Any) -> Tensor:
    """Return the concatenated positions of stretches, int64."""
    found = np.concatenate([np.arange(one.start, one.end) for one in parts])
    return sent(found.tolist(), device, torch.int64)
