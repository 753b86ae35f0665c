"""
SGLang's EAGLE draft worker with one arm per round. It can pause for some rounds and catch up.

Imported inside SGLang's processes only. Written against SGLang 0.5.23: `speculative/eagle_worker_v2.py`. Everything
else is SGLang's.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from sglang.srt.runtime_context import get_spec
from sglang.srt.speculative import spec_utils
from sglang.srt.speculative.eagle_info import EagleDraftInput
from sglang.srt.speculative.eagle_utils import _eagle_prefill_tail_tokens
from sglang.srt.speculative.eagle_worker_common import build_eagle_verify_input
from sglang.srt.speculative.eagle_worker_v2 import EagleDraftWorker
from torch import Tensor

from tlt_common.domain.arm import OFF, Arm
from tlt_worker.capacity.width import drafter_steps
from tlt_worker.scheduler.drafts.backlog import Backlog, Stretch
from tlt_worker.scheduler.drafts.completion import CacheCompletion
from tlt_worker.scheduler.drafts.eager_chain import EagerChain
from tlt_worker.scheduler.drafts.relay import gather_proposals
from tlt_worker.scheduler.drafts.sources import Sources
from tlt_worker.scheduler.sampling.proposal import ProposalLayout
from tlt_worker.scheduler.sent import sent

KEEP_UP_ROUNDS = 64
"""
Rounds without the drafter after which it processes what it skipped, which bounds the delay of the next drafting round.

Such a pass takes at most a third of a round (`tlt bench switch`, `on_rounds_50`), i.e. 1/200 of the time spent off; of
a larger batch on a CPU as much as a round. Where off is the best arm it is left out: what ends before a drafting arm is
explored is then never processed, and exploration pays for the rest.
"""


class TltDraftWorker(EagleDraftWorker):  # type: ignore[misc] # SGLang is untyped
    """A draft worker whose arm is chosen per round. It can pause for some rounds and catch up."""

    backlog: Backlog
    backlog_bytes: int
    keep_up_below: int
    """At or above this many running requests no arm drafts, and the drafter need not keep up."""
    completion: CacheCompletion
    chain: EagerChain | None
    """Drafts chains on a CPU. None uses SGLang's steps."""
    layout: ProposalLayout
    keeps_up: bool = False
    """Whether to process skipped states once this round has skipped, too. Decided by rank 0."""
    idle: bool
    """Whether no drafter has been loaded yet, so that its passes would waste time."""
    building: Arm | None = None
    """The arm whose state is being built; None for the launch shape, which never drafts."""
    capture_graphs: Callable[[Any], None] | None = None
    """Captures the graphs of the arm being built into this worker; None for the launch shape."""
    block_queries: int = 0
    """Tokens per request in one pass of a block drafter; 0 for other drafters."""
    reads_last: bool = False
    """Whether, in the last launched round, the drafter read the scheduler's tables after the target did."""
    completes: type[CacheCompletion] = CacheCompletion
    sources: Sources = Sources(by_kind={})
    arm: Arm = OFF
    """Arm of the running round."""
    speculative_num_steps: int
    _topk1_parents_prealloc: Any
    _topk1_score_indices_prealloc: Any

    def __init__(self, *args: Any, **kw: Any) -> None:
        self._links: dict[Arm, tuple[Any, Any]] = {}
        self._skipped: dict[str, int] = {}
        """By request whose draft input is empty, the first position that the drafter may not have processed."""
        self._skipped_rounds = 0
        self._certain_1V: Tensor | None = None
        super().__init__(*args, **kw)
        self._widest = self.speculative_num_draft_tokens
        """Most tokens that a round adds to a request."""

    def alloc_memory_pool(self, *args: Any, **kw: Any) -> None:
        super().alloc_memory_pool(*args, **kw)
        pool = self.token_to_kv_pool_allocator
        self.backlog = Backlog(slot_count=pool.size + pool.page_size, limit_bytes=self.backlog_bytes)
        requests = self.req_to_token_pool
        self.completion = self.completes(
            backlog=self.backlog,
            runner=self.draft_runner,
            slot_table=requests.req_to_token,
            max_requests=requests.size,
        )
        self.chain = EagerChain.of(self.draft_runner, requests.req_to_token)

    def init_attention_backend(self) -> None:
        """
        Build attention backends. Those of draft steps are only built for arms that draft with the drafter.

        A step's backend allocates memory on device and host before anything is captured.
        """
        steps = self.speculative_num_steps
        self.speculative_num_steps = drafter_steps(self.building)
        try:
            super().init_attention_backend()
        finally:
            self.speculative_num_steps = steps

    def use(self, arm: Arm, state: Any) -> None:
        """Switch to another arm's state."""
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
        # SGLang would rebuild a chain's links at each switch, although they depend on the arm only.
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
        if (source := self.sources.source(self.arm)) is not None:
            return self._to_verify(batch, source.drafts(batch, self.speculative_num_steps))
        gather_proposals(batch.spec_info)
        self._catch_up(batch)
        self.layout.narrow(batch.spec_info, self.arm)
        if self.chain is None or self.topk > 1 or not self.chain.fits(batch):
            return super().draft(batch, **kw)
        samples = get_spec().speculative_use_rejection_sampling and not batch.sampling_info.is_all_greedy
        return self._to_verify(batch, *self.chain.draft(batch, self.speculative_num_steps, samples=samples))

    def _to_verify(self, batch: Any, drafts: Tensor | None, draft_probs: Tensor | None = None) -> Any:
        """Build a round from the drafts [B, K] of a chain, and from their distributions if they were sampled."""
        count = len(batch.reqs)
        return build_eagle_verify_input(
            batch,
            batch.spec_info,
            self._topk1_parents_prealloc[:count],
            self._topk1_score_indices_prealloc[:count],
            drafts,
            draft_probs,
            target_worker=self.target_worker,
            topk=self.topk,
            num_steps=self.speculative_num_steps,
            num_draft_tokens=self.speculative_num_draft_tokens,
            tree_mask_mode=self.tree_mask_mode,
            device=self.device,
        )

    def _draft_extend_for_decode(self, batch: Any, batch_result: Any, **kw: Any) -> None:
        if self.sources.source(self.arm) is not None and not batch.forward_mode.is_idle():
            self.skip(batch, batch_result)
            if self.keeps_up:
                self.keep_up(batch)
            return
        self._extend(batch, batch_result, **kw)
        if self.backlog:
            self.backlog.drop(batch.out_cache_loc)

    def _extend(self, batch: Any, batch_result: Any, **kw: Any) -> None:
        """Process the verified tokens of a round, and fill the next round's draft input."""
        self._read_last()
        with self.layout.proposing(), get_spec().override(speculative_use_rejection_sampling=True):
            if self.chain is None or batch.forward_mode.is_idle() or not self.chain.fits(batch):
                super()._draft_extend_for_decode(batch, batch_result, **kw)
                return
            made = batch_result.next_draft_input
            logits_BV, made.hidden_states = self.chain.extend(batch, batch_result)
            made.draft_probs, made.topk_p, made.topk_index = self._propose(
                logits_BV, batch.sampling_info, batch_result.new_seq_lens
            )

    def _draft_extend_for_prefill(
        self, batch: Any, target_hidden_states: Tensor, next_token_ids: Tensor, *args: Any, **kw: Any
    ) -> Any:
        if batch.forward_mode.is_idle():
            return super()._draft_extend_for_prefill(batch, target_hidden_states, next_token_ids, *args, **kw)
        if self.idle:
            if self.backlog_bytes:
                following = _following(batch, _eagle_prefill_tail_tokens(batch, next_token_ids))
                self.backlog.put(batch.out_cache_loc, target_hidden_states, following)
            self._skipped.update((req.rid, 0) for req in batch.reqs)
            return self._empty_input(batch, next_token_ids)
        for req in batch.reqs:
            self._skipped.pop(req.rid, None)
        return self._extend_prompts(batch, target_hidden_states, next_token_ids, *args, **kw)

    def _extend_prompts(
        self, batch: Any, target_hidden_states: Tensor, next_token_ids: Tensor, *args: Any, **kw: Any
    ) -> Any:
        """Process prompts; return their requests' first draft input."""
        self._read_last()
        with self.layout.proposing(), get_spec().override(speculative_use_rejection_sampling=True):
            made = super()._draft_extend_for_prefill(batch, target_hidden_states, next_token_ids, *args, **kw)
            made.draft_probs, made.topk_p, made.topk_index = self._propose(
                self.layout.logits, batch.sampling_info, batch.seq_lens
            )
        return made

    def complete_prefixes(self, batch: Any) -> None:
        """
        Complete the drafter's cache for the cached prefixes of prompts before they run.

        Called before the target's pass, whose returned states a drafter pass would overwrite.
        """
        if self.idle or not self.backlog:
            return
        self.backlog.drop(batch.out_cache_loc)
        found = [Stretch(place, 0, length) for place, length in enumerate(batch.prefix_lens) if length > 0]
        self.completion.run(batch, found, sent([span.end for span in found], batch.seq_lens.device))

    def skip(self, batch: Any, result: Any) -> None:
        """Store a round's states instead of running a draft-extend, and leave the next round an empty draft input."""
        slots_R, nodes = batch.out_cache_loc, result.speculative_num_draft_tokens
        if nodes > 1:  # each request's rows start with the accepted path
            refused_BN = torch.arange(nodes, device=slots_R.device) >= result.accept_lens.view(-1, 1)
            slots_R = slots_R.masked_fill(refused_BN.view(-1), self.backlog.slot_count)
        if self.backlog_bytes:
            self.backlog.put(slots_R, result.logits_output.hidden_states, result.next_token_ids)
        self._note_skipped(batch)
        result.next_draft_input = self._empty_input(batch, result.next_draft_input.bonus_tokens)
        self._skipped_rounds += 1

    def _note_skipped(self, batch: Any) -> None:
        for req in batch.reqs:
            self._skipped.setdefault(req.rid, _known_length(req))
        slots = self.completion.max_requests
        if len(self._skipped) > 4 * slots:  # those that ended were not noticed; those that did not run yet are new
            newest = list(self._skipped.items())[-slots:]
            self._skipped = dict(newest) | {req.rid: self._skipped[req.rid] for req in batch.reqs}

    def is_behind(self, batch: Any) -> bool:
        """Whether the drafter must process skipped states if it skips one more round."""
        return self._skipped_rounds + 1 >= KEEP_UP_ROUNDS and len(batch.reqs) < self.keep_up_below and not self.idle

    def must_keep_up(self, batch: Any) -> bool:
        """Whether skipped states are about to be replaced before the drafter has processed them."""
        return self._skipped_rounds * len(batch.reqs) >= self.backlog.max_rows // 2

    def keep_up(self, batch: Any) -> None:
        """
        Complete the drafter's cache after a skipped round, without waiting for the device.

        Processes positions up to those that the host knows, which exclude the round's own: the last one must stay in
        the backlog, since a drafting round starts from its output.
        """
        self._read_last()
        self._skipped_rounds = 0
        known = [Stretch(place, self._skipped[req.rid], _known_length(req)) for place, req in enumerate(batch.reqs)]
        self.completion.fill(batch, known)
        self._skipped.update((batch.reqs[span.place].rid, span.end) for span in known)

    def _read_last(self) -> None:
        """Record that the tables are read from now on. Events of earlier passes do not cover this read."""
        self.reads_last, self.draft_runner.shared_read_done_event = True, None

    def _empty_input(self, batch: Any, bonus_tokens: Tensor) -> Any:
        """
        Return the draft input of requests that the drafter skipped.

        With overlapped scheduling (GPU), missing proposals are neither kept nor gathered between rounds, and a drafting
        round fills them in. Without it, SGLang needs tensors to merge batches.
        """
        made = EagleDraftInput(bonus_tokens=bonus_tokens, num_tokens_per_req=1, num_tokens_for_logprob_per_req=1)
        if not batch.enable_overlap:
            self._fill_blank(made, len(batch.reqs))
        return made

    def _fill_blank(self, into: Any, count: int) -> None:
        """
        Fill the draft input of `count` requests with placeholders of the right shapes.

        The draft is token 0 with probability 1, since drafts must be drawn from their distribution.
        """
        config, width = self.draft_runner.model_config, self.layout.width
        vocabulary = self.target_worker.model_config.vocab_size
        into.topk_p = torch.zeros(count, width, device=self.device)
        into.topk_index = torch.zeros(count, width, dtype=torch.int64, device=self.device)
        # The width of the drafter's own states: an EAGLE-3 target's states concatenate several layers.
        into.hidden_states = torch.zeros(count, config.spec_hidden_size, dtype=config.dtype, device=self.device)
        # One row shared by all requests and rounds: a row per request would cost memory each round. It must not be
        # written to, so that draft inputs are filled out of place.
        into.draft_probs = self._certain(0, vocabulary).expand(count, -1) if self.layout.samples else None

    def _blank(self, into: Any, places_S: Tensor) -> None:
        """Replace the draft input of some requests, which an earlier round left, with placeholders."""
        into.topk_p.index_fill_(0, places_S, 0.0)
        into.topk_index.index_fill_(0, places_S, 0)
        into.hidden_states.index_fill_(0, places_S, 0.0)
        if into.draft_probs is not None:
            into.draft_probs = into.draft_probs.index_fill(0, places_S, 0.0)
            into.draft_probs[places_S, 0] = 1.0

    def _certain(self, token: int, vocabulary: int) -> Tensor:
        """Return the distribution [1, V] of a token drafted without a drafter."""
        if self._certain_1V is None:
            self._certain_1V = torch.zeros(1, vocabulary, device=self.device)
            self._certain_1V[0, token] = 1.0
        return self._certain_1V

    def _propose(self, logits: Tensor | None, info: Any, positions: Tensor, chosen: Tensor | None = None) -> Any:
        seed, rows = info.sampling_seed, slice(None) if chosen is None else chosen
        return spec_utils.sample_draft_proposal(
            logits,
            info.temperatures[rows],
            info.top_ks[rows] if info.is_any_greedy else None,
            sampling_seed=None if seed is None else seed[rows],
            positions=positions[rows],
        )

    def _catch_up(self, batch: Any) -> None:
        """Complete the cache of requests that skipped passes, and fill their draft input."""
        skipped = {place: self._skipped[req.rid] for place, req in enumerate(batch.reqs) if req.rid in self._skipped}
        self._skipped.clear()  # of requests not in the batch, none will run again without a pass over its prompt
        if not skipped:
            return
        self._skipped_rounds = 0
        places_S = sent(list(skipped), batch.seq_lens.device)
        spans = [Stretch(place, start, self._bound(batch.reqs[place])) for place, start in skipped.items()]
        self._complete(batch, spans, places_S)

    def _complete(self, batch: Any, spans: list[Stretch], places_S: Tensor) -> None:
        into = batch.spec_info
        if len(spans) == len(batch.reqs):
            self._fill_blank(into, len(spans))
        else:
            self._blank(into, places_S)
        self.completion.run(batch, spans, batch.seq_lens[places_S], partial(self._fill, batch))

    def _fill(self, batch: Any, places: list[int], logits_PV: Tensor, hidden_PH: Tensor) -> None:
        """Fill the draft input of some requests with the drafter's output at their last positions."""
        into, chosen_P = batch.spec_info, sent(places, batch.seq_lens.device)
        with self.layout.proposing():
            probs, picked_p, picked = self._propose(logits_PV, batch.sampling_info, batch.seq_lens, chosen_P)
        if probs is not None:
            into.draft_probs = into.draft_probs.index_copy(0, chosen_P, probs.to(into.draft_probs.dtype))
        into.topk_p[chosen_P] = picked_p.to(into.topk_p.dtype)
        into.topk_index[chosen_P] = picked.to(into.topk_index.dtype)
        into.hidden_states[chosen_P] = hidden_PH.to(into.hidden_states.dtype)

    def _bound(self, req: Any) -> int:
        """Return the maximum position of a request: one round may not have been processed yet."""
        return min(_known_length(req) + self._widest, self.completion.slot_table.shape[1])


def _following(batch: Any, tails_B: Tensor) -> Tensor:
    """Return the token after each computed position of the prompts, [sum of extends]."""
    following: Tensor = batch.input_ids.roll(-1)
    ends = sent(batch.extend_lens, following.device).cumsum(0) - 1
    following[ends] = tails_B.to(following.dtype)
    return following


def _known_length(req: Any) -> int:
    """
    Return the number of positions of a request before the round, as far as the host knows.

    With overlapped scheduling there are more, since the last round has not been processed yet.
    """
    return max(0, len(req.origin_input_ids) + len(req.output_ids) - 1)
