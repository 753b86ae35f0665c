"""
Completes the drafter's cache from the backlog. Imported inside SGLang's processes only.

Written against SGLang 0.5.23: a draft pass as in `EagleDraftWorker._draft_extend_for_prefill`. A drafter has one layer,
so its entry at a position depends on that position alone, and holes can be filled in any order.

Shapes: G stretches of a pass, K positions of one, P requests, V vocabulary, H hidden size, B requests to complete, L
positions.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from sglang.srt.model_executor.forward_batch_info import CaptureHiddenMode, ForwardBatch, ForwardMode
from sglang.srt.speculative.eagle_info import EagleDraftExtendInput
from torch import Tensor

from tlt_worker.scheduler.drafts.backlog import Backlog, Stretch, passes, wanted
from tlt_worker.scheduler.sent import sent

PASS_TOKENS = 4096
"""Maximum states per pass: its workspace stays within that of a prompt's chunk."""
PADDING_SLOT = 0
"""Cache slot that SGLang writes what nobody reads to."""

UseEnds = Callable[[list[int], Tensor, Tensor], None]
"""Receives places in the batch, logits [P, V] and states [P, H], all valid until the next pass of a model."""


@dataclass(slots=True, kw_only=True)
class CacheCompletion:
    """Runs draft passes over skipped positions."""

    backlog: Backlog
    runner: Any
    """SGLang's model runner of the draft model."""
    slot_table: Tensor
    """Cache slot of each position of each request row."""
    max_requests: int
    """Number of request slots, which bounds the stretches per pass in attention and graphs."""
    _count: int = 0

    def fill(self, batch: Any, spans: list[Stretch]) -> None:
        """
        Complete the drafter's cache at these positions, all of which the target has computed. Does not wait for the
        device.

        Positions without stored states are computed and dropped, since only the device knows which they are.
        """
        if self.backlog:
            for group in passes(spans, max_tokens=PASS_TOKENS, max_stretches=self.max_requests):
                self._pass(batch, group)

    def run(self, batch: Any, spans: list[Stretch], length_B: Tensor, use_ends: UseEnds | None = None) -> None:
        """
        Complete the drafter's cache where states are stored. Waits for the device once.

        Args:
            batch: SGLang's batch.
            spans: Positions to search, one span per request, which may end beyond the request.
            length_B: Positions of these requests.
            use_ends: Called with the drafter's output for requests whose last position was processed, one pass at a
                time, since passes may reuse the same memory.
        """
        if not spans or not self.backlog:
            return
        rows_B1 = sent([[batch.reqs[span.place].kv.req_pool_idx] for span in spans], length_B.device)
        start_B1 = sent([[span.start] for span in spans], length_B.device)
        longest = max(span.end - span.start for span in spans)
        at_BL = (start_B1 + torch.arange(longest, device=length_B.device)).clamp(max=self.slot_table.shape[1] - 1)
        parts, lengths = wanted(spans, self.backlog.rows(self.slot_table[rows_B1, at_BL]), length_B)
        length_of = {span.place: length for span, length in zip(spans, lengths, strict=True)}
        # Last positions come last: they attend to all others, which must be written first.
        parts.sort(key=lambda part: part.end == length_of[part.place])
        for group in passes(parts, max_tokens=PASS_TOKENS, max_stretches=self.max_requests):
            output = self._pass(batch, group)
            ends = [part.place for part in group if part.end == length_of[part.place]]
            if ends and use_ends is not None:
                first = len(group) - len(ends)
                use_ends(ends, output.next_token_logits[first:], output.hidden_states[first:])

    def take_count(self) -> int:
        """Return the number of states that the drafter processed since the last call."""
        count, self._count = self._count, 0
        return count

    def _pass(self, batch: Any, parts: list[Stretch]) -> Any:
        """Run the drafter over stretches of the batch; return logits [G, V] and states [G, H] at their ends."""
        part = copy.copy(batch)  # shallow: the original batch is unchanged
        part.reqs = [batch.reqs[one.place] for one in parts]
        indices = [req.kv.req_pool_idx for req in part.reqs]
        ranges = zip(indices, parts, strict=True)
        slots_K = torch.cat([self.slot_table[index, one.start : one.end] for index, one in ranges])
        kept_K = self.backlog.rows(slots_K)
        hidden_KH, tokens_K = self.backlog.at(kept_K)
        device = slots_K.device
        chosen = sent([one.place for one in parts], device)
        part.seq_lens_cpu = torch.tensor([one.end for one in parts])
        part.seq_lens = sent([one.end for one in parts], device, batch.seq_lens.dtype)
        part.seq_lens_sum = sum(one.end for one in parts)
        part.req_pool_indices, part.orig_seq_lens = batch.req_pool_indices[chosen], batch.orig_seq_lens[chosen]
        part.req_pool_indices_cpu = torch.tensor(indices)
        part.prefix_lens = [one.start for one in parts]
        part.extend_lens = [one.end - one.start for one in parts]
        part.extend_num_tokens = len(slots_K)
        part.input_ids = tokens_K.to(torch.int64)
        part.out_cache_loc = torch.where(kept_K >= 0, slots_K.to(torch.int64), PADDING_SLOT)
        part.multimodal_inputs = [None] * len(parts)
        part.return_logprob = False
        part.extend_logprob_start_lens = part.decoding_reqs = part.sampling_info = None
        part.forward_mode = ForwardMode.EXTEND
        part.spec_info = EagleDraftExtendInput(
            hidden_states=hidden_KH, num_tokens_per_req=1, num_tokens_for_logprob_per_req=1
        )
        forward = ForwardBatch.init_new(
            part,
            self.runner,
            capture_hidden_mode=CaptureHiddenMode.LAST,
            return_hidden_states_before_norm=False,
        )
        forward.return_logprob = False
        output = self.runner.forward(forward).logits_output
        self.backlog.drop(slots_K)
        self._count += len(slots_K)
        return output
