"""
SGLang's block drafters, DFlash and DSpark, behind one interface. Imported inside SGLang's processes only.

One pass over the last token (the anchor) and mask tokens gives the states of a whole block of drafts. A query attends
to all others of its block and to the context, whose keys and values are not computed by the drafter's layers: they are
projected from the target's states (`write_context`). What the pass itself writes to the cache is overwritten.

DFlash's drafts are independent of each other: the state of each mask token gives its own draft. With DSpark a Markov
head adds to a position's logits a bias from the token drafted before it, and by default the anchor's state gives the
first draft. Its confidence head is not used: cutting a block after looking at the confidence of later tokens biases the
output (arXiv 2607.05147, appendix A).

Written against SGLang 0.5.23: `models/dflash.py`, `models/dspark.py`, and for the context of DFlash
`DFlashWorkerV2._append_target_hidden_sequential`.

Shapes: B requests, N drafts, Q queries of a request, T positions of the context, K states that the drafter reads of
each, H hidden size, V vocabulary.
"""

from collections.abc import Iterable
from typing import Any

from sglang.srt.distributed import tensor_model_parallel_all_gather
from sglang.srt.mem_cache.memory_pool import KVWriteLoc
from sglang.srt.models.dflash import DFlashDraftModel
from sglang.srt.models.dspark import DSparkDraftModel, gather_and_crop_vocab, project_through_lm_head
from sglang.srt.speculative.dspark_components.dspark_config import parse_dspark_draft_config
from torch import Tensor

from tlt_worker.scheduler.models.targets_head import TargetsHead


class TltDFlash(TargetsHead, DFlashDraftModel):  # type: ignore[misc] # SGLang is untyped
    """A DFlash drafter: drafts are drawn independently of each other."""

    markov_head: Any = None
    mask_token: int
    embed_tokens: Any

    def __init__(self, config: Any, *args: Any, **kw: Any) -> None:
        super().__init__(config, *args, **kw)
        self.mask_token = int(self.draft_config.mask_token_id)
        _use_kernels_of_the_device(self.layers)

    @property
    def queries(self) -> int:
        """Queries of a block, Q: the anchor and a mask token for each draft."""
        return int(self.block_size)

    @property
    def first_query(self) -> int:
        """The first query whose state gives a draft."""
        return 1

    def attach_shared_modules(self, *, embed_tokens: Any, lm_head: Any) -> None:
        """Use the target's embedding, and its head or rows of the head."""
        self.embed_tokens = embed_tokens
        self.use_head_of(lm_head)

    def forward_embed(self, input_ids: Tensor) -> Tensor:
        """Return the embeddings of a block. If a drafter has this method, SGLang captures it with the pass."""
        embedded: Tensor = self.embed_tokens(input_ids)
        return embedded

    def draft_logits(self, hidden_BNH: Tensor) -> Tensor:
        """Return the logits [B, N, V] of drafts; with DSpark, without its Markov head."""
        if self.is_reduced:
            return _spread(self, hidden_BNH)
        local_BNV = project_through_lm_head(hidden_BNH, self.lm_head)
        logits_BNV: Tensor = gather_and_crop_vocab(local_BNV, self.lm_head)
        return logits_BNV

    def write_context(self, states_TKH: Tensor, positions_T: Tensor, slots_T: Tensor, pool: Any) -> None:
        """Project [T, K * H] states of the target at context positions, and write keys and values to cache slots."""
        context_TH = self.project_target_hidden(states_TKH)
        for layer in self.layers:
            attention = layer.self_attn
            keys, values = attention.kv_proj_only(self.prepare_context_hidden_for_kv(layer, context_TH))
            keys = attention.apply_k_rope(positions_T, attention.apply_k_norm(keys))
            by_head = (-1, attention.num_kv_heads, attention.head_dim)
            radix = attention.attn
            where = KVWriteLoc(slots_T, physical=True)
            pool.set_kv_buffer(radix, where, keys.view(by_head), values.view(by_head), radix.k_scale, radix.v_scale)


class TltDSpark(TargetsHead, DSparkDraftModel):  # type: ignore[misc] # SGLang is untyped
    """A DSpark drafter: each draft depends on the one before it through the Markov head."""

    mask_token: int

    def __init__(self, config: Any, *args: Any, **kw: Any) -> None:
        super().__init__(config, *args, **kw)
        self.confidence_head = None
        self.mask_token = int(parse_dspark_draft_config(draft_hf_config=config).mask_token_id)
        _use_kernels_of_the_device(self.layers)

    @property
    def queries(self) -> int:
        """See `TltDFlash.queries`."""
        return int(self.gamma) + self.first_query

    @property
    def first_query(self) -> int:
        """See `TltDFlash.first_query`."""
        return 0 if self.sample_from_anchor else 1

    def attach_shared_modules(self, *, embed_tokens: Any, lm_head: Any) -> None:
        """
        Use the target's embedding, and its head or rows of the head. The Markov head is the drafter's own and stays
        whole.
        """
        if self.is_reduced:
            self.embed_tokens = embed_tokens
            self.use_head_of(lm_head)
        else:
            super().attach_shared_modules(embed_tokens=embed_tokens, lm_head=lm_head)

    def draft_logits(self, hidden_BNH: Tensor) -> Tensor:
        """See `TltDFlash.draft_logits`."""
        if self.is_reduced:
            return _spread(self, hidden_BNH)
        logits_BNV: Tensor = self.compute_base_logits(hidden_BNH)[0]
        return logits_BNV

    def write_context(self, states_TKH: Tensor, positions_T: Tensor, slots_T: Tensor, pool: Any) -> None:
        """See `TltDFlash.write_context`."""
        self.write_target_hidden_kv(target_hidden=states_TKH, pool=pool, positions=positions_T, cache_loc=slots_T)

    def load_weights(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        """Load weights, and discard SGLang's merged copies of earlier ones for projecting the context."""
        super().load_weights(weights)
        self._stacked_ctx_kv_cache = False
        self._fused_kv_write_cache = None

    def _fused_kv_write_bundle(self, pool: Any) -> Any:
        # Its kernel is Triton's, whatever the device.
        return super()._fused_kv_write_bundle(pool) if self.fc.weight.is_cuda else None


def _use_kernels_of_the_device(layers: Iterable[Any]) -> None:
    # In bfloat16, SGLang takes Triton's kernel for norms and positions whatever the device.
    for layer in layers:
        attention = layer.self_attn
        attention.use_table_qk_norm_rope = attention.use_table_qk_norm_rope and attention.qkv_proj.weight.is_cuda


def _spread(drafter: TargetsHead, hidden_BNH: Tensor) -> Tensor:
    """Return the logits of a reduced head. It is padded on each rank, which SGLang would take for the last rows."""
    local_BND = project_through_lm_head(hidden_BNH, drafter.lm_head)
    spread_BNV: Tensor = drafter.spread(tensor_model_parallel_all_gather(local_BND, dim=-1))
    return spread_BNV


EntryClass = [TltDFlash, TltDSpark]
