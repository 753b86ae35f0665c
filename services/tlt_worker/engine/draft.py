"""
SGLang's EAGLE draft worker with a way to be off for a while and catch up. Imported inside SGLang's processes only.

Written against SGLang 0.5.23: `speculative/eagle_worker_v2.py`. Everything not named here is SGLang's.
"""

import copy
from typing import Any

import torch
from sglang.srt.model_executor.forward_batch_info import CaptureHiddenMode, ForwardBatch, ForwardMode
from sglang.srt.runtime_context import get_spec
from sglang.srt.speculative.eagle_info import EagleDraftExtendInput, EagleDraftInput
from sglang.srt.speculative.eagle_utils import _eagle_prefill_tail_tokens
from sglang.srt.speculative.eagle_worker_v2 import EagleDraftWorker
from sglang.srt.speculative.spec_utils import sample_draft_proposal
from torch import Tensor

from tlt_worker.engine.gap import Gap, Gaps


class TltDraftWorker(EagleDraftWorker):  # type: ignore[misc] # SGLang is untyped
    """A draft worker that can be off for a while and catch up."""

    gaps: Gaps
    idle: bool
    """No drafter was loaded yet: its passes would cost time and write nothing of use."""

    def _draft_extend_for_prefill(
        self, batch: Any, target_hidden_states: Tensor, next_token_ids: Tensor, *args: Any, **kw: Any
    ) -> Any:
        if not self.idle or batch.forward_mode.is_idle():
            for req in batch.reqs:
                self.gaps.forget(req.rid)
            return super()._draft_extend_for_prefill(batch, target_hidden_states, next_token_ids, *args, **kw)
        tails = _eagle_prefill_tail_tokens(batch, next_token_ids)
        low = 0
        for place, (req, count) in enumerate(zip(batch.reqs, batch.extend_lens, strict=True)):
            tokens = torch.cat([batch.input_ids[low + 1 : low + count], tails[place].reshape(1)])
            self.gaps.append(req.rid, batch.prefix_lens[place], target_hidden_states[low : low + count], tokens)
            low += count
        return self.blank_input(len(batch.reqs), next_token_ids, target_hidden_states)

    def blank_input(self, batch: int, bonus_tokens: Tensor, like: Tensor) -> Any:
        """Draft input of the right shapes and no content, for rounds that do not draft."""
        vocabulary = self.target_worker.model_config.vocab_size
        sampled = get_spec().speculative_use_rejection_sampling
        return EagleDraftInput(
            topk_p=torch.zeros(batch, self.topk, device=like.device),
            topk_index=torch.zeros(batch, self.topk, dtype=torch.int64, device=like.device),
            # One row seen by all: nobody reads it, and a real one per request would cost a vocabulary each round.
            draft_probs=torch.zeros(1, vocabulary, device=like.device).expand(batch, -1) if sampled else None,
            # As wide as the drafter's own states: an EAGLE-3 target's are those of several layers.
            hidden_states=like.new_zeros(batch, self.draft_runner.model_config.spec_hidden_size),
            bonus_tokens=bonus_tokens,
            num_tokens_per_req=1,
            num_tokens_for_logprob_per_req=1,
        )

    def remember(self, batch: Any, result: Any) -> None:
        """Keep the states of a round without drafts: one per request."""
        hidden_BH, tokens_B = result.logits_output.hidden_states, result.next_token_ids
        for place, (req, position) in enumerate(zip(batch.reqs, batch.seq_lens.tolist(), strict=True)):
            self.gaps.append(req.rid, position, hidden_BH[place : place + 1], tokens_B[place : place + 1])

    def draft(self, batch: Any, **kw: Any) -> Any:
        if self.gaps and not batch.forward_mode.is_idle():
            self._catch_up(batch)
        return super().draft(batch, **kw)

    def _catch_up(self, batch: Any) -> None:
        lengths = batch.seq_lens.tolist()
        found = [(place, self.gaps.pop(req.rid, lengths[place])) for place, req in enumerate(batch.reqs)]
        gaps = [(place, gap) for place, gap in found if gap is not None]
        if not gaps:
            return
        chosen = torch.tensor([place for place, _ in gaps], device=batch.seq_lens.device)
        logits, hidden_states = self._extend_over(batch, gaps, chosen)
        into, info = batch.spec_info, batch.sampling_info
        if get_spec().speculative_use_rejection_sampling:
            seed = info.sampling_seed
            probs, picked_p, picked = sample_draft_proposal(
                logits,
                info.temperatures[chosen],
                info.top_ks[chosen],
                sampling_seed=None if seed is None else seed[chosen],
                positions=batch.seq_lens[chosen],
            )
            # Blank rows share memory (`blank_input`).
            into.draft_probs = into.draft_probs.clone() if 0 in into.draft_probs.stride() else into.draft_probs
            into.draft_probs[chosen] = probs.to(into.draft_probs.dtype)
        else:
            picked = logits.argmax(-1, keepdim=True)
            picked_p = torch.ones_like(picked, dtype=torch.float32)
        into.topk_p[chosen] = picked_p.to(into.topk_p.dtype)
        into.topk_index[chosen] = picked.to(into.topk_index.dtype)
        into.hidden_states[chosen] = hidden_states.to(into.hidden_states.dtype)

    def _extend_over(self, batch: Any, gaps: list[tuple[int, Gap]], chosen: Tensor) -> tuple[Tensor, Tensor]:
        """Write the drafter's cache over the gaps; return logits [G, V] and states [G, H] at their ends."""
        part = copy.copy(batch)  # shallow: the real batch goes on to verification
        table = self.req_to_token_pool.req_to_token
        part.reqs = [batch.reqs[place] for place, _ in gaps]
        part.seq_lens = batch.seq_lens[chosen]
        part.seq_lens_cpu = torch.tensor([gap.end for _, gap in gaps])
        part.seq_lens_sum = sum(gap.end for _, gap in gaps)
        part.req_pool_indices = batch.req_pool_indices[chosen]
        for name in ("req_pool_indices_cpu", "orig_seq_lens"):
            if (whole := getattr(batch, name, None)) is not None:
                setattr(part, name, whole[chosen.to(whole.device)])
        part.prefix_lens = [gap.start for _, gap in gaps]
        part.extend_lens = [gap.count for _, gap in gaps]
        part.extend_num_tokens = sum(part.extend_lens)
        part.input_ids = torch.cat([gap.tokens for _, gap in gaps]).to(torch.int64)
        rows = batch.req_pool_indices[chosen].tolist()
        slots = [table[row, gap.start : gap.end] for row, (_, gap) in zip(rows, gaps, strict=True)]
        part.out_cache_loc = torch.cat(slots).to(torch.int64)
        part.multimodal_inputs = [None] * len(gaps)
        part.return_logprob = False
        part.extend_logprob_start_lens = part.decoding_reqs = part.sampling_info = None
        part.forward_mode = ForwardMode.EXTEND
        part.spec_info = EagleDraftExtendInput(
            hidden_states=torch.cat([gap.hidden for _, gap in gaps]),
            num_tokens_per_req=1,
            num_tokens_for_logprob_per_req=1,
        )
        forward = ForwardBatch.init_new(
            part,
            self.draft_runner,
            capture_hidden_mode=CaptureHiddenMode.LAST,
            return_hidden_states_before_norm=False,
        )
        forward.return_logprob = False
        output = self.draft_runner.forward(forward).logits_output
        return output.next_token_logits, output.hidden_states
