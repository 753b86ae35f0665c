"""
SGLang's EAGLE workers with arms, catch-up and capture. Imported by the plug-in only, inside SGLang's processes.

Written against SGLang 0.5.23: `speculative/eagle_worker_v2.py`. Everything not named here is SGLang's.
"""

import copy
import os
import time
from typing import Any

import torch
from sglang.srt.distributed.parallel_state import get_tp_group
from sglang.srt.layers.moe.utils import speculative_moe_a2a_backend_context, speculative_moe_backend_context
from sglang.srt.model_executor.forward_batch_info import CaptureHiddenMode, ForwardBatch, ForwardMode
from sglang.srt.runtime_context import get_context, get_serving, get_spec
from sglang.srt.speculative.eagle_info import EagleDraftExtendInput, EagleDraftInput
from sglang.srt.speculative.eagle_utils import _eagle_prefill_tail_tokens
from sglang.srt.speculative.eagle_worker_v2 import EagleDraftWorker, EAGLEWorkerV2
from sglang.srt.speculative.spec_utils import (
    draft_tp_context,
    sample_draft_proposal,
)
from torch import Tensor

from tlt_common.bandit import Bandit, BanditConfig
from tlt_common.domain.hidden import CapturePolicy
from tlt_common.domain.ids import PolicyVersion
from tlt_common.domain.tuner import Posterior
from tlt_worker.engine.arms import ArmStates
from tlt_worker.engine.gap import Gap, Gaps
from tlt_worker.engine.link import (
    LINK_VARIABLE,
    Down,
    DrafterLoaded,
    ForceArm,
    LinkSettings,
    PolicyLoaded,
    SchedulerEnd,
)
from tlt_worker.engine.ranks import Link, NoLink, Ranks
from tlt_worker.engine.rid import request_id
from tlt_worker.engine.switching import Switch
from tlt_worker.engine.tap import Tap, stretches_of


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
            hidden_states=like.new_zeros(batch, like.shape[1]),
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


class TltWorker(EAGLEWorkerV2):  # type: ignore[misc] # SGLang is untyped
    """An EAGLE worker whose arm is chosen each round, and whose hidden states are captured."""

    def __init__(self, *args: Any, **kw: Any) -> None:
        super().__init__(*args, **kw)
        settings = LinkSettings.from_json(os.environ[LINK_VARIABLE])
        group = get_tp_group()
        self.ranks = Ranks(rank=group.rank_in_group, size=group.world_size, group=group.cpu_group)
        self.link: Link = SchedulerEnd(settings) if self.ranks.leads else NoLink()
        config = BanditConfig(epsilon=settings.epsilon, speculate_below_requests=settings.speculate_below_requests)
        self.switch = Switch(
            bandit=Bandit(settings.arms, config, settings.seed), report=self.link.send, clock=time.perf_counter
        )
        self.arms = ArmStates(worker=self, override=get_context().override, arms=settings.arms)
        self.tap = Tap(send=self.link.send, hidden_size=self.target_worker.model_config.hidden_size)
        self._draft_worker.gaps = Gaps(limit=settings.catch_up_tokens)
        self._draft_worker.idle = True

    def init_cuda_graphs(self) -> None:
        super().init_cuda_graphs()
        with (
            draft_tp_context(self._draft_worker.parallel_layout),
            speculative_moe_backend_context(),
            speculative_moe_a2a_backend_context(),
        ):
            self.arms.build()

    def forward_batch_generation(self, batch: Any, *args: Any, **kw: Any) -> Any:
        for message in self.ranks.agree(self.link.heard):
            self._obey(message)
        if batch.forward_mode.is_extend() or batch.is_extend_in_batch or batch.forward_mode.is_idle():
            return super().forward_batch_generation(batch, *args, **kw)
        blocked = any(_is_blocked(req) for req in batch.reqs)
        self.arms.switch(self.ranks.agree(lambda: self.switch.launch(len(batch.reqs), blocked=blocked)))
        return super().forward_batch_generation(batch, *args, **kw)

    def on_verify_complete_cpu(self, num_correct_drafts_per_req: list[int], batch_size: int = 0) -> None:
        del batch_size
        self.switch.complete(num_correct_drafts_per_req)

    def _build_trivial_verify_input(self, batch: Any) -> Any:
        verify = super()._build_trivial_verify_input(batch)
        if get_spec().speculative_use_rejection_sampling:
            # SGLang refuses sampled verification without proposals, also where there is nothing to reject.
            vocabulary = self.target_worker.model_config.vocab_size
            verify.draft_probs = torch.zeros(1, 1, vocabulary, device=self.device).expand(len(batch.reqs), 1, -1)
        return verify

    def _stub_skipped_draft_extend(self, batch: Any, batch_output: Any) -> None:
        self._draft_worker.remember(batch, batch_output)
        made, like = batch_output.next_draft_input, batch_output.logits_output.hidden_states
        blank = self._draft_worker.blank_input(len(batch.reqs), made.bonus_tokens, like)
        made.topk_p, made.topk_index = blank.topk_p, blank.topk_index
        made.hidden_states, made.draft_probs = blank.hidden_states, blank.draft_probs

    def capture(self, batch: Any, result: Any, lengths_before: list[int]) -> None:
        """Take the states of a processed round, and end the trails of requests that finished in it."""
        hidden = result.logits_output.hidden_states if result.logits_output is not None else None
        if self.ranks.leads and self.tap.policy.enabled and hidden is not None:
            stretches = stretches_of(batch, result, lengths_before, self.tap.policy)
            self.tap.take(hidden, stretches, PolicyVersion(int(get_serving().weight_version)))
        for req in batch.reqs:
            if req.finished():
                self.tap.finish(request_id(req.rid), len(req.output_ids_through_stop))
                self._draft_worker.gaps.forget(req.rid)

    def _obey(self, message: Down) -> None:
        match message:
            case CapturePolicy():
                self.tap.policy = message
            case Posterior():
                self.switch.merge(message)
            case ForceArm(name=name):
                self.switch.forced = None if name is None else self.arms.named(name)
            case DrafterLoaded(version=version):
                self.switch.drafter_loaded(version)
                self._draft_worker.idle = False
            case PolicyLoaded():
                self.switch.policy_loaded()


def _is_blocked(req: Any) -> bool:
    custom = req.sampling_params.custom_params or {}
    return bool(custom.get("tlt_speculation_off", False))
