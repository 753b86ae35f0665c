"""
SGLang's EAGLE draft worker with an arm per round, and a way to be off for a while and catch up.

Imported inside SGLang's processes only. Written against SGLang 0.5.23: `speculative/eagle_worker_v2.py`. Everything
not named here is SGLang's.
"""

import copy
from collections.abc import Callable
from typing import Any

import torch
from sglang.srt.model_executor.forward_batch_info import CaptureHiddenMode, ForwardBatch, ForwardMode
from sglang.srt.runtime_context import get_spec
from sglang.srt.speculative import spec_utils
from sglang.srt.speculative.eagle_info import EagleDraftExtendInput, EagleDraftInput
from sglang.srt.speculative.eagle_utils import _eagle_prefill_tail_tokens
from sglang.srt.speculative.eagle_worker_common import build_eagle_verify_input
from sglang.srt.speculative.eagle_worker_v2 import EagleDraftWorker
from torch import Tensor

from tlt_common.domain.strategy import OFF, Arm, DrafterKind
from tlt_worker.engine.gap import Gap, Gaps
from tlt_worker.engine.proposal import Layout
from tlt_worker.engine.retriever import Retriever


class TltDraftWorker(EagleDraftWorker):  # type: ignore[misc] # SGLang is untyped
    """A draft worker whose arm is chosen each round, and which can be off for a while and catch up."""

    gaps: Gaps
    layout: Layout
    idle: bool
    """No drafter was loaded yet: its passes would cost time and write nothing of use."""
    capture_graphs: Callable[[Any], None] | None = None
    """Captures the graphs of the arm being built into this worker; none for the shape of the launch."""
    retriever: Retriever | None = None
    arm: Arm = OFF
    """Of the running round."""
    _topk1_parents_prealloc: Any
    _topk1_score_indices_prealloc: Any

    def __init__(self, *args: Any, **kw: Any) -> None:
        self._links: dict[Arm, tuple[Any, Any]] = {}
        super().__init__(*args, **kw)

    def use(self, arm: Arm, state: Any) -> None:
        """Go on with another arm's state."""
        self.arm, self.topk = arm, arm.topk
        self.speculative_num_steps, self.speculative_num_draft_tokens = arm.steps, arm.draft_tokens
        self.draft_attn_backend = self.draft_runner.draft_attn_backend = state.draft_attn_backend
        self.cuda_graph_runner = state.cuda_graph_runner
        self.draft_extend_attn_backend = state.draft_extend_attn_backend
        self.cuda_graph_runner_for_draft_extend = state.cuda_graph_runner_for_draft_extend
        if state.draft_extend_attn_backend is not None:
            self.draft_runner.attn_backend = state.draft_extend_attn_backend
        if arm.topk > 1:
            return
        # SGLang makes a chain's links anew at each switch, though they only depend on the arm.
        if arm not in self._links:
            self._rebuild_topk1_chain_buffers()
            self._links[arm] = (self._topk1_parents_prealloc, self._topk1_score_indices_prealloc)
        self._topk1_parents_prealloc, self._topk1_score_indices_prealloc = self._links[arm]

    def _capture_cuda_graphs(self) -> None:
        self.cuda_graph_runner = self.cuda_graph_runner_for_draft_extend = None
        if self.capture_graphs is not None:
            self.capture_graphs(self)

    def draft(self, batch: Any, **kw: Any) -> Any:
        if batch.forward_mode.is_idle():
            return super().draft(batch, **kw)
        if self.arm.kind is DrafterKind.NGRAM:
            return self._retrieve(batch)
        if self.gaps:
            self._catch_up(batch)
        self.layout.narrow(batch.spec_info, self.arm)
        return super().draft(batch, **kw)

    def _retrieve(self, batch: Any) -> Any:
        """A round of retrieved drafts: no pass of the learned drafter."""
        assert self.retriever is not None, "n-gram arms need a retriever"  # noqa: S101 - a bug, not an input
        count = len(batch.reqs)
        return build_eagle_verify_input(
            batch,
            batch.spec_info,
            self._topk1_parents_prealloc[:count],
            self._topk1_score_indices_prealloc[:count],
            self.retriever.drafts(batch, self.speculative_num_steps),
            None,
            target_worker=self.target_worker,
            topk=self.topk,
            num_steps=self.speculative_num_steps,
            num_draft_tokens=self.speculative_num_draft_tokens,
            tree_mask_mode=self.tree_mask_mode,
            device=self.device,
        )

    def _draft_extend_for_decode(self, batch: Any, batch_result: Any, **kw: Any) -> None:
        if self.arm.kind is DrafterKind.NGRAM and not batch.forward_mode.is_idle():
            self.skip(batch, batch_result)
            return
        with self.layout.proposing(), get_spec().override(speculative_use_rejection_sampling=True):
            super()._draft_extend_for_decode(batch, batch_result, **kw)

    def _draft_extend_for_prefill(
        self, batch: Any, target_hidden_states: Tensor, next_token_ids: Tensor, *args: Any, **kw: Any
    ) -> Any:
        if batch.forward_mode.is_idle():
            return super()._draft_extend_for_prefill(batch, target_hidden_states, next_token_ids, *args, **kw)
        if not self.idle:
            for req in batch.reqs:
                self.gaps.forget(req.rid)
            with self.layout.proposing(), get_spec().override(speculative_use_rejection_sampling=True):
                made = super()._draft_extend_for_prefill(batch, target_hidden_states, next_token_ids, *args, **kw)
                made.draft_probs, made.topk_p, made.topk_index = self._propose(
                    self.layout.logits, batch.sampling_info, batch.seq_lens
                )
            return made
        tails = _eagle_prefill_tail_tokens(batch, next_token_ids)
        low = 0
        for place, (req, count) in enumerate(zip(batch.reqs, batch.extend_lens, strict=True)):
            tokens = torch.cat([batch.input_ids[low + 1 : low + count], tails[place].reshape(1)])
            self.gaps.append(req.rid, batch.prefix_lens[place], target_hidden_states[low : low + count], tokens)
            low += count
        return self._blank_input(len(batch.reqs), next_token_ids, target_hidden_states)

    def skip(self, batch: Any, result: Any) -> None:
        """In the place of a draft-extend: keep a round's states, and leave the next one nothing to draft from."""
        self._remember(batch, result)
        made, like = result.next_draft_input, result.logits_output.hidden_states
        blank = self._blank_input(len(batch.reqs), made.bonus_tokens, like)
        made.topk_p, made.topk_index = blank.topk_p, blank.topk_index
        made.hidden_states, made.draft_probs = blank.hidden_states, blank.draft_probs

    def _blank_input(self, batch: int, bonus_tokens: Tensor, like: Tensor) -> Any:
        """Draft input of the right shapes and no content."""
        vocabulary, width = self.target_worker.model_config.vocab_size, self.layout.width
        return EagleDraftInput(
            topk_p=torch.zeros(batch, width, device=like.device),
            topk_index=torch.zeros(batch, width, dtype=torch.int64, device=like.device),
            # One row seen by all: nobody reads it, and a real one per request would cost a vocabulary each round.
            draft_probs=torch.zeros(1, vocabulary, device=like.device).expand(batch, -1)
            if self.layout.samples
            else None,
            # As wide as the drafter's own states: an EAGLE-3 target's are those of several layers.
            hidden_states=like.new_zeros(batch, self.draft_runner.model_config.spec_hidden_size),
            bonus_tokens=bonus_tokens,
            num_tokens_per_req=1,
            num_tokens_for_logprob_per_req=1,
        )

    def _remember(self, batch: Any, result: Any) -> None:
        """Keep the states of the accepted path, which begins each request's rows."""
        hidden_RH, tokens_R = result.logits_output.hidden_states, result.next_token_ids
        nodes = result.speculative_num_draft_tokens
        counts = [1] * len(batch.reqs) if nodes == 1 else result.accept_lens.tolist()
        for place, (req, position) in enumerate(zip(batch.reqs, batch.seq_lens.tolist(), strict=True)):
            rows = slice(place * nodes, place * nodes + counts[place])
            self.gaps.append(req.rid, position, hidden_RH[rows], tokens_R[rows])

    def _propose(self, logits: Tensor | None, info: Any, positions: Tensor) -> Any:
        return spec_utils.sample_draft_proposal(
            logits, info.temperatures, info.top_ks, sampling_seed=info.sampling_seed, positions=positions
        )

    def _catch_up(self, batch: Any) -> None:
        lengths = batch.seq_lens.tolist()
        found = [(place, self.gaps.pop(req.rid, lengths[place])) for place, req in enumerate(batch.reqs)]
        gaps = [(place, gap) for place, gap in found if gap is not None]
        if not gaps:
            return
        chosen = torch.tensor([place for place, _ in gaps], device=batch.seq_lens.device)
        logits, hidden_states = self._extend_over(batch, gaps, chosen)
        into, info = batch.spec_info, batch.sampling_info
        seed = info.sampling_seed
        with self.layout.proposing():
            probs, picked_p, picked = spec_utils.sample_draft_proposal(
                logits,
                info.temperatures[chosen],
                info.top_ks[chosen],
                sampling_seed=None if seed is None else seed[chosen],
                positions=batch.seq_lens[chosen],
            )
        if probs is not None:
            # Blank rows share memory (`_blank_input`).
            into.draft_probs = into.draft_probs.clone() if 0 in into.draft_probs.stride() else into.draft_probs
            into.draft_probs[chosen] = probs.to(into.draft_probs.dtype)
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
