"""
Completion of the drafter's cache from the backlog. Imported inside SGLang's processes only.

Written against SGLang 0.5.23: a draft pass as in `EagleDraftWorker._draft_extend_for_prefill`. A drafter has one layer,
so what it writes at a position depends on that position alone, and holes can be filled in any order.

Shapes: G stretches of a pass, P requests, V vocabulary, H hidden size, B requests to complete, L positions.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from sglang.srt.model_executor.forward_batch_info import CaptureHiddenMode, ForwardBatch, ForwardMode
from sglang.srt.speculative.eagle_info import EagleDraftExtendInput
from torch import Tensor

from tlt_worker.scheduler.drafts.backlog import Backlog, Stretch, passes, stretches
from tlt_worker.scheduler.sent import sent

PASS_TOKENS = 4096
"""Maximum states per pass: its workspace stays within that of a prompt's chunk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """The drafter's output after the last position of requests."""

    places: list[int]
    """Indices in the batch."""
    logits: Tensor
    """[P, V]"""
    hidden: Tensor
    """[P, H]"""


@dataclass(slots=True, kw_only=True)
class CacheCompletion:
    """Runs draft passes over skipped positions."""

    backlog: Backlog
    runner: Any
    """SGLang's model runner of the draft model."""
    slot_table: Tensor
    """Cache slot of each position of each request row."""
    _count: int = 0

    def run(self, batch: Any, lengths: Sequence[tuple[int, int]]) -> Ends | None:
        """
        Complete the drafter's cache for the first positions of requests, given as (index in the batch, length) pairs.

        Returns the drafter's output for requests whose last position was processed; None if there are none.
        """
        if not lengths or not self.backlog:
            return None
        device = self.slot_table.device
        rows = batch.req_pool_indices[sent([place for place, _ in lengths], device)]
        length_B1 = sent([length for _, length in lengths], device).view(-1, 1)
        slot_BL = self.slot_table[rows, : max(length for _, length in lengths)]
        kept_BL = self.backlog.rows(slot_BL)
        within_BL = torch.arange(slot_BL.shape[1], device=device) < length_B1
        parts = stretches((kept_BL >= 0) & within_BL)
        # Last positions come last: they attend to all others, which must be written first.
        parts.sort(key=lambda part: part.end == lengths[part.place][1])
        places, logits, hidden = list[int](), list[Tensor](), list[Tensor]()
        for group in passes(parts, PASS_TOKENS):
            kept = torch.cat([kept_BL[part.place, part.start : part.end] for part in group])
            slots = torch.cat([slot_BL[part.place, part.start : part.end] for part in group])
            placed = [part._replace(place=lengths[part.place][0]) for part in group]
            output = self._pass(batch, placed, slots, *self.backlog.at(kept))
            for row, part in enumerate(group):
                if part.end == lengths[part.place][1]:
                    places.append(placed[row].place)
                    logits.append(output.next_token_logits[row])
                    hidden.append(output.hidden_states[row])
            self.backlog.drop(slots)
            self._count += len(slots)
        return Ends(places=places, logits=torch.stack(logits), hidden=torch.stack(hidden)) if places else None

    def take_count(self) -> int:
        """Return the number of states processed by the drafter since the last call."""
        count, self._count = self._count, 0
        return count

    def _pass(self, batch: Any, parts: list[Stretch], slots: Tensor, hidden: Tensor, tokens: Tensor) -> Any:
        """Run the drafter over stretches of the batch; return logits [G, V] and states [G, H] at their ends."""
        part = copy.copy(batch)  # shallow: the original batch is unchanged
        chosen = sent([one.place for one in parts], batch.req_pool_indices.device)
        part.reqs = [batch.reqs[one.place] for one in parts]
        part.seq_lens_cpu = torch.tensor([one.end for one in parts])
        part.seq_lens = part.seq_lens_cpu.to(batch.seq_lens)
        part.seq_lens_sum = sum(one.end for one in parts)
        part.req_pool_indices = batch.req_pool_indices[chosen]
        for name in ("req_pool_indices_cpu", "orig_seq_lens"):
            if (whole := getattr(batch, name, None)) is not None:
                setattr(part, name, whole[chosen.to(whole.device)])
        part.prefix_lens = [one.start for one in parts]
        part.extend_lens = [one.end - one.start for one in parts]
        part.extend_num_tokens = len(slots)
        part.input_ids, part.out_cache_loc = tokens.to(torch.int64), slots.to(torch.int64)
        part.multimodal_inputs = [None] * len(parts)
        part.return_logprob = False
        part.extend_logprob_start_lens = part.decoding_reqs = part.sampling_info = None
        part.forward_mode = ForwardMode.EXTEND
        part.spec_info = EagleDraftExtendInput(
            hidden_states=hidden, num_tokens_per_req=1, num_tokens_for_logprob_per_req=1
        )
        forward = ForwardBatch.init_new(
            part,
            self.runner,
            capture_hidden_mode=CaptureHiddenMode.LAST,
            return_hidden_states_before_norm=False,
        )
        forward.return_logprob = False
        return self.runner.forward(forward).logits_output
