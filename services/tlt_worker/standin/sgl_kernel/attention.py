"""
Attention over a paged key/value cache; small batches are padded into one call.

Shapes: B requests, E query tokens per request, L cached tokens (padded), H query heads, K key/value heads, D head size,
S cache slots. A forward pass calls these functions once per layer with the same lengths, so what depends on lengths
only (gathered slots, masks) is planned at the first layer and reused by the others.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

BATCHED_QUERY_TOKENS = 32
"""Requests with equally many query tokens, up to this many, share padded calls; others are processed one by one."""

GROUP_BYTES = 1 << 20
"""
Maximum key bytes per call. Larger temporaries exceed the CPU cache and are mapped again each time: 16 requests of
1,000 tokens take 2.8 ms per layer one by one and 5.7 ms in one call (one core, 4 heads of 64).
"""


@dataclass(slots=True)
class _Plan:
    """State of one forward pass that every layer reuses."""

    key: tuple[Tensor | None, ...]
    """The tensors it was made from, referenced so that their ids stay unique."""
    seen_layers: set[int] = field(default_factory=set)
    """Addresses of the key buffers processed. A repeated layer means a new pass, whose lengths may differ."""
    batches: list["_Batch"] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Batch:
    """Requests processed by one call."""

    rows: slice
    """Query rows, B * E of them."""
    count: int
    slots: Tensor
    """[B * L] cache slots, padded with each request's first slot."""
    mask: Tensor | None
    """[B, 1, E, L] visibility; None if everything is visible."""
    causal: bool


_decode_plans: dict[int, _Plan] = {}
"""By the window of their layers, in tokens; 0: no window."""
_extend_plans: dict[tuple[int, bool], _Plan] = {}
"""By that, and whether query tokens see only earlier ones of theirs."""


def _reusable(plan: _Plan | None, key: tuple[Tensor | None, ...], layer: int) -> bool:
    if plan is None or layer in plan.seen_layers:
        return False
    return all(mine is theirs for mine, theirs in zip(plan.key, key, strict=True))


def _refuse_unsupported(logit_cap: float, is_cross: bool) -> None:
    if logit_cap > 0 or is_cross:
        raise NotImplementedError(
            "the torch stand-in for sgl_kernel supports neither a logit cap nor cross attention; run such a "
            "model on a GPU"
        )


def decode_attention_cpu(
    query: Tensor,
    k_buffer: Tensor,
    v_buffer: Tensor,
    k_scale: float,
    v_scale: float,
    output: Tensor,
    key: Tensor | None,
    value: Tensor | None,
    loc: Tensor,
    attn_logits: Tensor,
    req_to_token: Tensor,
    req_pool_indices: Tensor,
    seq_lens: Tensor,
    sm_scale: float,
    logit_cap: float,
    is_cross_attn: bool = False,
    sliding_window: int = 0,
    encoder_lens: Tensor | None = None,
    sinks: Tensor | None = None,
) -> None:
    """Store one new key and value per request, then attend one query token [B, H, D] of each into `output`."""
    del k_scale, v_scale, attn_logits, encoder_lens
    _refuse_unsupported(logit_cap, is_cross_attn)
    if key is not None and value is not None:
        k_buffer.index_copy_(0, loc, key.view(-1, *k_buffer.shape[1:]).to(k_buffer.dtype))
        v_buffer.index_copy_(0, loc, value.view(-1, *v_buffer.shape[1:]).to(v_buffer.dtype))
    plan_key = (req_to_token, req_pool_indices, seq_lens)
    layer = k_buffer.data_ptr()
    if not _reusable(_decode_plans.get(sliding_window), plan_key, layer):
        lengths, group = seq_lens.tolist(), _group_tokens(k_buffer, 4)
        batches = _plan_equal(req_to_token, req_pool_indices, lengths, 1, None, group, sliding_window)
        _decode_plans[sliding_window] = _Plan(key=plan_key, batches=batches)
    plan = _decode_plans[sliding_window]
    plan.seen_layers.add(layer)
    _attend(plan, query, k_buffer, v_buffer, output, sm_scale, sinks)


def extend_attention_cpu(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    output: Tensor,
    k_buffer: Tensor,
    v_buffer: Tensor,
    k_scale: float,
    v_scale: float,
    req_to_token: Tensor,
    req_pool_indices: Tensor,
    seq_lens: Tensor,
    extend_seq_lens: Tensor,
    extend_start_loc: Tensor,
    max_len_extend: int,
    sm_scale: float,
    logit_cap: float,
    is_cross_attn: bool = False,
    sliding_window: int = 0,
    encoder_lens: Tensor | None = None,
    sinks: Tensor | None = None,
    tree_mask: Tensor | None = None,
    is_causal: bool = True,
) -> None:
    """
    Attend each request's last query tokens [sum E, H, D] to its whole cached sequence.

    Keys and values must be in the cache already. `tree_mask`, if given, is the concatenation of [E, E] masks among the
    query tokens; earlier tokens are always visible. A token sees the last `sliding_window` tokens up to itself, or all
    if that is 0; if not `is_causal`, also later query tokens. `sinks` [H] are additional logits in each head's softmax.
    """
    del key, value, k_scale, v_scale, max_len_extend, encoder_lens
    _refuse_unsupported(logit_cap, is_cross_attn)
    if sliding_window and tree_mask is not None:
        raise NotImplementedError("the torch stand-in for sgl_kernel verifies no trees within a sliding window")
    if not is_causal and (sliding_window or tree_mask is not None):
        raise NotImplementedError(
            "the torch stand-in for sgl_kernel has no window or tree where all tokens see each other"
        )
    plan_key = (req_to_token, req_pool_indices, seq_lens, extend_seq_lens, tree_mask)
    layer = k_buffer.data_ptr()
    kind = sliding_window, is_causal
    if not _reusable(_extend_plans.get(kind), plan_key, layer):
        batches = _plan_extend(
            req_to_token,
            req_pool_indices,
            seq_lens,
            extend_seq_lens,
            extend_start_loc,
            tree_mask,
            _group_tokens(k_buffer, k_buffer.element_size()),
            sliding_window,
            causal=is_causal,
        )
        _extend_plans[kind] = _Plan(key=plan_key, batches=batches)
    plan = _extend_plans[kind]
    plan.seen_layers.add(layer)
    _attend(plan, query, k_buffer, v_buffer, output, sm_scale, sinks)


def _group_tokens(k_buffer: Tensor, element_bytes: int) -> int:
    return GROUP_BYTES // (element_bytes * k_buffer.shape[1] * k_buffer.shape[2])


def _attend(
    plan: _Plan,
    query: Tensor,
    k_buffer: Tensor,
    v_buffer: Tensor,
    output: Tensor,
    scale: float,
    sinks_H: Tensor | None,
) -> None:
    heads, size = query.shape[1:]
    kv_heads = k_buffer.shape[1]
    share = heads // kv_heads
    for batch in plan.batches:
        keys, values = _gather(k_buffer, batch), _gather(v_buffer, batch)
        query_BHED = query[batch.rows].view(batch.count, -1, heads, size).transpose(1, 2)
        tokens = query_BHED.shape[2]
        if sinks_H is not None:
            out_BEHD = _with_sinks(query_BHED, keys, values, batch, scale, sinks_H)
            output[batch.rows] = out_BEHD.reshape(-1, heads, values.shape[-1])
            continue
        mask = batch.mask
        if share > 1 and not batch.causal:
            # Heads that share keys become query rows of one head: half the time of SDPA's own grouping.
            query_BHED = query_BHED.reshape(batch.count, kv_heads, share * tokens, size)
            mask = None if mask is None else mask.repeat(1, 1, share, 1)
        if query_BHED.shape[2] == 1:
            # torch's bfloat16 kernel takes 3 to 5 times as long as float32's for a single row.
            query_BHED, keys, values = query_BHED.float(), keys.float(), values.float()
        out = nn.functional.scaled_dot_product_attention(
            query_BHED,
            keys,
            values,
            attn_mask=mask,
            is_causal=batch.causal,
            scale=scale,
            enable_gqa=share > 1 and batch.causal,
        )
        out = out.reshape(batch.count, heads, tokens, -1).transpose(1, 2)
        output[batch.rows] = out.reshape(-1, heads, values.shape[-1])


def _with_sinks(
    query_BHED: Tensor, keys_BKLD: Tensor, values_BKLD: Tensor, batch: _Batch, scale: float, sinks_H: Tensor
) -> Tensor:
    """Return attention [B, E, H, D] in which each head's sink acts as one more key without a value."""
    share, tokens = query_BHED.shape[1] // keys_BKLD.shape[1], query_BHED.shape[2]
    keys, values = (each.float().repeat_interleave(share, 1) for each in (keys_BKLD, values_BKLD))
    scores_BHEL = query_BHED.float() @ keys.transpose(2, 3) * scale
    mask = torch.ones(tokens, keys.shape[2], dtype=torch.bool).tril() if batch.causal else batch.mask
    if mask is not None:
        scores_BHEL = scores_BHEL.masked_fill(~mask, float("-inf"))
    sinks_BHE1 = sinks_H.float().view(1, -1, 1, 1).expand(*scores_BHEL.shape[:3], 1)
    weights_BHEL = torch.cat([scores_BHEL, sinks_BHE1], dim=-1).softmax(-1)[..., :-1]
    return (weights_BHEL @ values).transpose(1, 2)


def _gather(buffer_SKD: Tensor, batch: _Batch) -> Tensor:
    rows = buffer_SKD.flatten(1).index_select(0, batch.slots)
    return rows.view(batch.count, -1, *buffer_SKD.shape[1:]).transpose(1, 2)


def _plan_equal(
    req_to_token: Tensor,
    req_pool_indices: Tensor,
    lengths: list[int],
    query_tokens: int,
    trees_BEE: Tensor | None,
    group_tokens: int,
    window: int,
    *,
    causal: bool = True,
) -> list[_Batch]:
    """Plan padded calls for requests with the same number of query tokens."""
    batches, low = [], 0
    while low < len(lengths):
        high, longest = low + 1, lengths[low]
        while high < len(lengths) and max(longest, lengths[high]) * (high + 1 - low) <= group_tokens:
            longest = max(longest, lengths[high])
            high += 1
        trees = None if trees_BEE is None else trees_BEE[low:high]
        slots_BL = req_to_token[req_pool_indices[low:high].to(torch.int64), :longest].to(torch.int64)
        rows = slice(low * query_tokens, high * query_tokens)
        if causal:
            batches.append(_plan_group(slots_BL, rows, lengths[low:high], query_tokens, trees, window))
        else:
            batches.append(_plan_open(slots_BL, rows, lengths[low:high]))
        low = high
    return batches


def _plan_group(
    slots_BL: Tensor, rows: slice, lengths: list[int], query_tokens: int, trees_BEE: Tensor | None, window: int
) -> _Batch:
    count, longest = slots_BL.shape
    if query_tokens == 1 and min(lengths) == longest and not 0 < window < longest:
        return _Batch(rows, count, slots_BL.reshape(-1), None, causal=False)
    length_B1 = torch.tensor(lengths).view(-1, 1)
    position_L = torch.arange(longest)
    slots_BL = torch.where(position_L < length_B1, slots_BL, slots_BL[:, :1])  # rows hold stale slots beyond their end
    if trees_BEE is None:
        last_BE = length_B1 - query_tokens + torch.arange(query_tokens)
        mask = position_L <= last_BE.unsqueeze(-1)
        if window:
            mask &= position_L > last_BE.unsqueeze(-1) - window
    else:
        mask = (position_L < length_B1 - query_tokens).unsqueeze(1).repeat(1, query_tokens, 1)
        places_BEE = (length_B1 - query_tokens + torch.arange(query_tokens)).unsqueeze(1).expand_as(trees_BEE)
        mask.scatter_(2, places_BEE, trees_BEE)
    return _Batch(rows, count, slots_BL.reshape(-1), mask.unsqueeze(1), causal=False)


def _plan_open(slots_BL: Tensor, rows: slice, lengths: list[int]) -> _Batch:
    """Plan a call in which every query token sees all of its request."""
    count, longest = slots_BL.shape
    if min(lengths) == longest:
        return _Batch(rows, count, slots_BL.reshape(-1), None, causal=False)
    is_own_BL = torch.arange(longest) < torch.tensor(lengths).view(-1, 1)
    slots_BL = torch.where(is_own_BL, slots_BL, slots_BL[:, :1])
    tokens = (rows.stop - rows.start) // count
    return _Batch(
        rows, count, slots_BL.reshape(-1), is_own_BL.view(count, 1, 1, -1).repeat(1, 1, tokens, 1), causal=False
    )


def _plan_extend(
    req_to_token: Tensor,
    req_pool_indices: Tensor,
    seq_lens: Tensor,
    extend_seq_lens: Tensor,
    extend_start_loc: Tensor,
    tree_mask: Tensor | None,
    group_tokens: int,
    window: int,
    *,
    causal: bool,
) -> list[_Batch]:
    lengths, extends = seq_lens.tolist(), extend_seq_lens.tolist()
    if min(extends) == max(extends) <= BATCHED_QUERY_TOKENS:
        trees = None if tree_mask is None else tree_mask.view(-1)[: len(extends) * extends[0] ** 2]
        trees_BEE = None if trees is None else trees.view(len(extends), extends[0], extends[0]).to(torch.bool)
        return _plan_equal(
            req_to_token, req_pool_indices, lengths, extends[0], trees_BEE, group_tokens, window, causal=causal
        )
    batches, tree_start = [], 0
    for row, length, extend, start in zip(
        req_pool_indices.tolist(), lengths, extends, extend_start_loc.tolist(), strict=True
    ):
        slots_L = req_to_token[row, :length].to(torch.int64)
        tree = None
        if tree_mask is not None:
            tree = tree_mask.view(-1)[tree_start : tree_start + extend**2].view(extend, extend).to(torch.bool)
            tree_start += extend**2
        whole = length == extend and tree is None and causal and not 0 < window < length
        mask = None if whole or not causal else _request_mask(length, extend, tree, window)
        batches.append(_Batch(slice(start, start + extend), 1, slots_L, mask, causal=whole))
    return batches


def _request_mask(length: int, extend: int, tree_EE: Tensor | None, window: int) -> Tensor:
    among_EE = torch.ones(extend, extend, dtype=torch.bool).tril() if tree_EE is None else tree_EE
    mask = torch.cat([torch.ones(extend, length - extend, dtype=torch.bool), among_EE], 1)
    if window:
        mask = mask.triu(length - extend - window + 1)
    return mask.view(1, 1, extend, length)
