"""
A draft worker that drafts a block per pass. Imported by the plug-in only, inside SGLang's processes.

A round's block is one pass over each request's last token and mask tokens. It leaves no state for the next round, so
that a request's draft input is empty after every round, as after rounds without the drafter. Instead of a draft-extend,
the target's states at the verified positions are projected into the drafter's cache; entries of rejected tokens are
overwritten before they are read, as in the target's cache.

Every arm runs the drafter's own block and takes as many of its first drafts as it verifies. They equal those of a
longer arm, and the head, which costs the most, computes no others. Their number is known before the round.

Written against SGLang 0.5.23: `speculative/dspark_components/dspark_draft.py`, whose pass this is.

Shapes: B requests, N drafts, Q queries of a request, T tokens, V vocabulary, H hidden size.
"""

from dataclasses import dataclass
from typing import Any

import torch
from sglang.kernels.ops.speculative.cache_locs import assign_extend_cache_locs_uniform_func
from sglang.srt.model_executor.forward_batch_info import CaptureHiddenMode, ForwardBatch, ForwardMode
from sglang.srt.runtime_context import get_spec
from sglang.srt.speculative import spec_utils
from sglang.srt.speculative.dflash_info import DFlashVerifyInput
from sglang.srt.speculative.draft_utils import DraftBackendFactory
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm
from torch import Tensor

from tlt_common.domain.arm import Arm
from tlt_worker.scheduler.blocks.context import ContextCompletion, positions_of
from tlt_worker.scheduler.draft_worker import TltDraftWorker
from tlt_worker.scheduler.drafts.backlog import Stretch
from tlt_worker.scheduler.drafts.completion import CacheCompletion
from tlt_worker.scheduler.models.block import TltDFlash, TltDSpark


@dataclass
class BlockQueries(DFlashVerifyInput):  # type: ignore[misc] # SGLang is untyped
    """Properties of a block that attention requires."""

    tree_topk: int = 1
    """Read by the CPU's backend."""


class TltBlockWorker(TltDraftWorker):
    """A draft worker whose arms draft the first tokens of a block."""

    completes: type[CacheCompletion] = ContextCompletion

    @property
    def model(self) -> TltDFlash | TltDSpark:
        """The drafter."""
        model: TltDFlash | TltDSpark = self.draft_runner.model
        return model

    @property
    def block_queries(self) -> int:  # type: ignore[override] # a plain attribute elsewhere
        return self.model.queries

    def init_token_map(self) -> None:
        self.hot_token_id = None

    def init_lm_head(self) -> None:
        target = self.target_worker.model_runner.model
        owner = target if hasattr(target, "get_input_embeddings") else target.model
        self.model.attach_shared_modules(embed_tokens=owner.get_input_embeddings(), lm_head=target.lm_head)

    def alloc_memory_pool(self, *args: Any, **kw: Any) -> None:
        super().alloc_memory_pool(*args, **kw)
        # By it SGLang's graphs know that this drafter's passes are verifications in form.
        self.draft_runner.spec_algorithm = SpeculativeAlgorithm.DFLASH

    def init_attention_backend(self) -> None:
        """Build the attention backend of the pass for an arm that runs it. Prompts have no drafter pass."""
        self.draft_attn_backend = self.draft_extend_attn_backend = None
        if self.building is not None and self.building.is_block:
            # It reads the width of a pass from the configuration, once.
            with get_spec().override(speculative_num_draft_tokens=self.model.queries):
                factory = DraftBackendFactory(self.draft_runner, 1, 0)
                self.draft_attn_backend = factory.create_draft_extend_backend()
        self.draft_runner.draft_attn_backend = self.draft_attn_backend

    def init_cuda_graphs(self) -> None:
        # Without the graphs of prompts' passes that SGLang captures.
        self.draft_worker.init_cuda_graphs(capture_decode_cuda_graph=False)
        self._capture_cuda_graphs()

    def use(self, arm: Arm, state: Any) -> None:
        super().use(arm, state)
        if arm.is_block:
            self.draft_runner.attn_backend = state.draft_attn_backend
            self.draft_runner.decode_cuda_graph_runner = state.cuda_graph_runner

    def draft(self, batch: Any, **kw: Any) -> Any:
        if batch.forward_mode.is_idle():
            return self._to_verify(batch, None)
        if self.sources.source(self.arm) is not None:
            return super().draft(batch, **kw)
        self._catch_up(batch)
        return self._to_verify(batch, *self._block(batch))

    def _block(self, batch: Any) -> tuple[Tensor, Tensor | None]:
        """Return the round's drafts [B, N] and, for sampled ones, the distributions they were drawn from [B, N, V]."""
        model, count = self.model, self.speculative_num_steps
        hidden_BNH = self._states(batch)[:, model.first_query : model.first_query + count]
        logits_BNV = model.draft_logits(hidden_BNH)
        if model.markov_head is None:
            return self._drawn(batch, logits_BNV, first=0)
        state, before_B = model.markov_head.init_state(hidden_BNH), batch.spec_info.bonus_tokens
        drafts, probs = [], []
        for place in range(count):
            bias_BV, state = model.markov_head.step_bias(before_B, hidden_states=hidden_BNH[:, place], state=state)
            drafts_B1, probs_B1V = self._drawn(batch, (logits_BNV[:, place] + bias_BV).unsqueeze(1), first=place)
            before_B = drafts_B1.view(-1)
            drafts.append(drafts_B1)
            probs.append(probs_B1V)
        sampled = [each for each in probs if each is not None]
        return torch.cat(drafts, 1), torch.cat(sampled, 1) if sampled else None

    def _states(self, batch: Any) -> Tensor:
        """Run the drafter over a block per request; return its states [B, Q, H]."""
        runner, queries, count = self.draft_runner, self.model.queries, len(batch.reqs)
        device = batch.seq_lens.device
        ids_BQ = torch.full((count, queries), self.model.mask_token, dtype=torch.int64, device=device)
        ids_BQ[:, 0] = batch.spec_info.bonus_tokens
        positions_BQ = batch.seq_lens.view(-1, 1).to(torch.int64) + torch.arange(queries, device=device)
        slots_T = assign_extend_cache_locs_uniform_func(
            req_pool_indices=batch.req_pool_indices,
            req_to_token=self.req_to_token_pool.req_to_token,
            start_offset=batch.seq_lens,
            batch_size=count,
            draft_token_num=queries,
            device=device,
        )
        lengths_cpu = None if batch.seq_lens_cpu is None else batch.seq_lens_cpu + queries
        forward = ForwardBatch(
            forward_mode=ForwardMode.TARGET_VERIFY,
            batch_size=count,
            input_ids=ids_BQ.view(-1),
            req_pool_indices=batch.req_pool_indices,
            seq_lens=batch.seq_lens,
            out_cache_loc=slots_T,
            seq_lens_sum=None if lengths_cpu is None else int(lengths_cpu.sum()),
            seq_lens_cpu=lengths_cpu,
            positions=positions_BQ.view(-1),
            spec_algorithm=runner.spec_algorithm,
            spec_info=BlockQueries(
                draft_token=ids_BQ.view(-1),
                positions=positions_BQ.view(-1),
                draft_token_num=queries,
                capture_hidden_mode=CaptureHiddenMode.NULL,
            ),
            capture_hidden_mode=CaptureHiddenMode.NULL,
        )
        runner.kv_index_translator.bind_own_plan(forward)
        hidden_TH: Tensor = runner.forward(forward).logits_output.hidden_states
        return hidden_TH.view(count, queries, -1)

    def _drawn(self, batch: Any, logits_BNV: Tensor, *, first: int) -> tuple[Tensor, Tensor | None]:
        """
        Draw drafts [B, N], starting with number `first` of the block, and return the distributions they were drawn
        from.
        """
        info, (count, drafts) = batch.sampling_info, logits_BNV.shape[:2]
        if not get_spec().speculative_use_rejection_sampling or info.is_all_greedy:
            return logits_BNV.argmax(-1), None
        positions_BN = batch.seq_lens.view(-1, 1) + torch.arange(first, first + drafts, device=logits_BNV.device)
        seeds_B = info.sampling_seed
        probs_TV, _, drafts_T1 = spec_utils.sample_draft_proposal(
            logits_BNV.flatten(0, 1),
            info.temperatures.repeat_interleave(drafts, 0),
            info.top_ks.repeat_interleave(drafts, 0),
            sampling_seed=None if seeds_B is None else seeds_B.repeat_interleave(drafts, 0),
            positions=positions_BN.view(-1),
        )
        return drafts_T1.view(count, drafts), probs_TV.view(count, drafts, -1)

    def _extend(self, batch: Any, batch_result: Any, **_: Any) -> None:
        nodes = batch_result.speculative_num_draft_tokens
        positions_BN = batch.seq_lens.view(-1, 1) + torch.arange(nodes, device=batch.seq_lens.device)
        self._write(batch_result.logits_output.hidden_states, positions_BN.view(-1), batch.out_cache_loc)
        batch_result.next_draft_input = self._empty_input(batch, batch_result.next_draft_input.bonus_tokens)

    def _extend_prompts(
        self, batch: Any, target_hidden_states: Tensor, next_token_ids: Tensor, *_: Any, **__: Any
    ) -> Any:
        spans = [
            Stretch(place, start, start + count)
            for place, (start, count) in enumerate(zip(batch.prefix_lens, batch.extend_lens, strict=True))
        ]
        self._write(target_hidden_states, positions_of(spans, batch.seq_lens.device), batch.out_cache_loc)
        return self._empty_input(batch, next_token_ids)

    def _write(self, states_TH: Tensor, positions_T: Tensor, slots_T: Tensor) -> None:
        # Ranks of several GPUs may have padded the states.
        states_TH, slots_T = states_TH[: len(slots_T)], slots_T.to(torch.int64)
        self.model.write_context(states_TH, positions_T, slots_T, self.draft_runner.token_to_kv_pool)

    def _complete(self, batch: Any, spans: list[Stretch], places_S: Tensor) -> None:
        self.completion.run(batch, spans, batch.seq_lens[places_S])
