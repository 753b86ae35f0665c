"""
Cache slots that requests write and read.

`req_to_token` is [requests, context]: the cache slot of each position of each request row.
"""

import ctypes

import torch
from torch import Tensor


def _ranges(starts_B: Tensor, ends_B: Tensor) -> list[tuple[int, int]]:
    return list(zip(starts_B.tolist(), ends_B.tolist(), strict=True))


def assign_req_to_token_pool_cpu(
    req_pool_indices: Tensor, req_to_token: Tensor, start: Tensor, end: Tensor, out_cache_loc: Tensor, pool_len: int
) -> None:
    """Write each request's new slots, concatenated in `out_cache_loc`, to its positions start .. end - 1."""
    del pool_len
    done = 0
    for row, (low, high) in zip(req_pool_indices.tolist(), _ranges(start, end), strict=True):
        count = high - low
        req_to_token[row, low:high] = out_cache_loc[done : done + count].to(req_to_token.dtype)
        done += count


def assign_extend_cache_locs_cpu(
    req_pool_indices: Tensor, req_to_token: Tensor, start: Tensor, end: Tensor, out_cache_loc: Tensor, pool_len: int
) -> None:
    """Read each request's slots of positions start .. end - 1 into `out_cache_loc`, concatenated."""
    del pool_len
    done = 0
    for row, (low, high) in zip(req_pool_indices.tolist(), _ranges(start, end), strict=True):
        count = high - low
        out_cache_loc[done : done + count] = req_to_token[row, low:high].to(out_cache_loc.dtype)
        done += count


def assign_draft_cache_locs_contiguous_cpu(
    req_pool_indices: Tensor,
    req_to_token: Tensor,
    seq_lens: Tensor,
    out_cache_loc: Tensor,
    pool_len: int,
    topk: int,
    num_steps: int,
) -> None:
    """Read the topk * num_steps slots after each request's sequence, request by request."""
    del pool_len
    offsets_N = torch.arange(topk * num_steps)
    positions_B_N = seq_lens.to(torch.int64).unsqueeze(1) + offsets_N
    slots_B_N = req_to_token[req_pool_indices.to(torch.int64)].gather(1, positions_B_N)
    out_cache_loc[: slots_B_N.numel()] = slots_B_N.view(-1).to(out_cache_loc.dtype)


def build_draft_decode_metadata_cpu(
    req_to_token: Tensor, req_pool_indices: Tensor, seq_lens: Tensor, topk: int, num_steps: int, pool_len: int
) -> Tensor:
    """
    Return the slot table of the draft's decode steps: one row per request and branch, [batch * topk, context].

    A branch sees the request's sequence and then its own num_steps slots, as if it were a separate request.
    """
    rows_B = req_pool_indices.to(torch.int64)
    if topk == 1:  # a chain's slots already follow the sequence
        return req_to_token[rows_B]
    table = req_to_token[rows_B].repeat_interleave(topk, 0)
    steps_S = torch.arange(num_steps)
    for request, length in enumerate(seq_lens.tolist()):
        last = min(length + num_steps, pool_len)
        for branch in range(topk):
            source_S = length + branch * num_steps + steps_S[: last - length]
            table[request * topk + branch, length:last] = req_to_token[rows_B[request], source_S]
    return table


def fill_bonus_tokens_cpu(accept_tokens: Tensor, accept_lens: Tensor, bonus_tokens: Tensor, accept_stride: int) -> None:
    """Write each request's last accepted token, taken from rows of `accept_stride` tokens, to `bonus_tokens`."""
    count = accept_lens.numel()
    last_B = torch.arange(count) * accept_stride + accept_lens.to(torch.int64) - 1
    bonus_tokens[:count] = accept_tokens.view(-1)[last_B].to(bonus_tokens.dtype)


def fill_accept_out_cache_loc_cpu(accept_index: Tensor, out_cache_loc: Tensor, accept_out_cache_loc: Tensor) -> None:
    """Gather the slots of accepted nodes; -1 marks no node."""
    flat = accept_index.view(-1)
    kept_N = flat[flat >= 0].to(torch.int64)
    accept_out_cache_loc[: kept_N.numel()] = out_cache_loc[kept_N].to(accept_out_cache_loc.dtype)


def rotate_input_ids_cpu(
    input_ids: Tensor, start_loc: Tensor, seq_lens: Tensor, topk_index: Tensor, select_index: Tensor | None = None
) -> None:
    """Shift each request's tokens left by one and put its next token at the end (or at `select_index`)."""
    places = select_index.tolist() if select_index is not None else None
    tokens_B = topk_index.view(-1)
    for request, (start, count) in enumerate(zip(start_loc.tolist(), seq_lens.tolist(), strict=True)):
        if count <= 0:
            continue
        input_ids[start : start + count - 1] = input_ids[start + 1 : start + count].clone()
        input_ids[places[request] if places is not None else start + count - 1] = tokens_B[request]


def copy_all_layer_kv_cache_cpu(data_ptrs: Tensor, strides: Tensor, tgt_loc: Tensor, src_loc: Tensor) -> None:
    """Copy cache rows src_loc -> tgt_loc in every layer; `data_ptrs` are addresses, `strides` bytes per row."""
    targets, sources = tgt_loc.tolist(), src_loc.tolist()
    for address, stride in zip(data_ptrs.tolist(), strides.tolist(), strict=True):
        # Read all rows before writing any: a target may be another row's source.
        rows = [ctypes.string_at(address + slot * stride, stride) for slot in sources]
        for slot, row in zip(targets, rows, strict=True):
            ctypes.memmove(address + slot * stride, row, stride)
