"""
Filters and draws as Triton kernels, for GPUs: one launch each, two with seeds. Imported only there and by their test.

In torch they are dozens of kernels over all rows; for few rows, launching them takes longer than running them. Here one
program handles one row, which stays in the GPU's L2 cache, and adds integers (`fixed_point`), so that its tokens equal
those of the torch form bit for bit. No float that affects a decision is fused or approximated: the first kernel of
`reseed` runs without fused multiply-adds. Compiled for GPUs by their test. They were right on an H200; `draw_beyond`
has not run on one since it draws for acceptance, too.

Shapes: R rows, V vocabulary.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from tlt_worker.scheduler.sampling.cuts import Cuts
from tlt_worker.scheduler.sampling.fixed_point import BITS, COIN_BITS
from tlt_worker.scheduler.sampling.noise import LN2, ROOT2

BLOCK = 4096
WARPS = 8

_UNIT = tl.constexpr(2.0**BITS)
_SUM = tl.constexpr(2.0**-BITS)
_COIN = tl.constexpr(2.0**COIN_BITS)
_COIN_BITS, _COIN_MASK = tl.constexpr(COIN_BITS), tl.constexpr(2**COIN_BITS - 1)
_LN2, _ROOT2 = tl.constexpr(LN2), tl.constexpr(ROOT2)


@triton.jit  # type: ignore[untyped-decorator] # Triton is untyped
def _load(first, start, size, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202 - Triton reads annotations
    at = start + tl.arange(0, BLOCK)
    value = tl.load(first + at, mask=at < size, other=0.0)
    return at, tl.where((value > 0) & (value < float("inf")), value, 0.0)


@triton.jit  # type: ignore[untyped-decorator]
def truncate_row(probs, top_ks, top_ps, min_ps, cut, size, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201
    """Filter one row; see `threshold.truncate`."""
    row = tl.program_id(0).to(tl.int64)
    first, into = probs + row * size, cut + row * size
    most, top_p, min_p = tl.load(top_ks + row), tl.load(top_ps + row), tl.load(min_ps + row)
    if (most < size) | (top_p < 1.0) | (min_p > 0.0):
        mass = tl.where(top_p < 1.0, (top_p * _UNIT).to(tl.int64), 1 << 62)
        low = tl.full([], 0, tl.int32)
        for step in range(31):
            tried = low | (1 << (30 - step))
            bound = tried.to(tl.float32, bitcast=True)
            count, total = tl.zeros([BLOCK], tl.int32), tl.zeros([BLOCK], tl.int64)
            for start in range(0, size, BLOCK):
                at, value = _load(first, start, size, BLOCK)
                is_above = value > bound
                count += is_above.to(tl.int32)
                total += (tl.where(is_above, value, 0.0) * _UNIT).to(tl.int64)
            is_kept = (tl.sum(count, 0) < most) & (tl.sum(total, 0) <= mass)
            low = tl.where(is_kept, low, tried)
        least = (low + 1).to(tl.float32, bitcast=True)
        count, total, largest = tl.zeros([BLOCK], tl.int32), tl.zeros([BLOCK], tl.int64), tl.zeros([BLOCK], tl.float32)
        for start in range(0, size, BLOCK):
            at, value = _load(first, start, size, BLOCK)
            is_above = value > least
            count += is_above.to(tl.int32)
            total += (tl.where(is_above, value, 0.0) * _UNIT).to(tl.int64)
            largest = tl.maximum(largest, value)
        # Ties are ordered by token id: as many of the first ones as both filters allow.
        each = (least * _UNIT).to(tl.int64)
        fitting = (mass - tl.sum(total, 0)) // tl.maximum(each, 1) + 1
        left = (most - tl.sum(count, 0)).to(tl.int64)
        ties = tl.where(each > 0, tl.minimum(left, fitting), left)
        likely = tl.max(largest, 0) * min_p
        seen = tl.full([], 0, tl.int64)
        total = tl.zeros([BLOCK], tl.int64)
        for start in range(0, size, BLOCK):
            at, value = _load(first, start, size, BLOCK)
            is_equal = value == least
            rank = seen + tl.cumsum(is_equal.to(tl.int64), 0) - 1
            kept = tl.where((value > least) | (is_equal & (rank < ties)), value, 0.0)
            kept = tl.where(value >= likely, kept, 0.0)
            seen += tl.sum(is_equal.to(tl.int64), 0)
            total += (kept * _UNIT).to(tl.int64)
            tl.store(into + at, kept, mask=at < size)
        sum_kept = tl.sum(total, 0).to(tl.float32) * _SUM
        tl.debug_barrier()  # other threads read what these wrote
        for start in range(0, size, BLOCK):
            at = start + tl.arange(0, BLOCK)
            kept = tl.load(into + at, mask=at < size, other=0.0)
            tl.store(into + at, tl.div_rn(kept, sum_kept), mask=at < size)
    else:
        for start in range(0, size, BLOCK):
            at = start + tl.arange(0, BLOCK)
            tl.store(into + at, tl.load(first + at, mask=at < size, other=0.0), mask=at < size)


@triton.jit  # type: ignore[untyped-decorator]
def _load_beyond(p_first, q_first, is_beyond, start, size, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    """Load a block of p or, if `is_beyond`, of max(p - q, 0)."""
    at = start + tl.arange(0, BLOCK)
    p = tl.load(p_first + at, mask=at < size, other=0.0)
    q = tl.load(q_first + at, mask=(at < size) & is_beyond, other=0.0)
    value = p - q
    return at, value, tl.where((value > 0) & (value < float("inf")), value, 0.0)


@triton.jit  # type: ignore[untyped-decorator]
def draw_beyond(p_first, q_first, is_beyond, coin, size, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201
    """
    Draw a token with its coin from a row p or, if `is_beyond`, from max(p - q, 0); see `draw.draw`.

    Draws from p if max(p - q, 0) is zero or NaN everywhere.
    """
    count = tl.zeros([BLOCK], tl.int32)
    if is_beyond:
        broken = tl.zeros([BLOCK], tl.int32)
        for start in range(0, size, BLOCK):
            at, value, weight = _load_beyond(p_first, q_first, is_beyond, start, size, BLOCK)
            count += (value > 0).to(tl.int32)
            broken += tl.where(value <= float("inf"), 0, 1)  # not a number
        is_beyond = (tl.sum(count, 0) > 0) & (tl.sum(broken, 0) == 0)
    largest = tl.zeros([BLOCK], tl.float32)
    for start in range(0, size, BLOCK):
        at, value, weight = _load_beyond(p_first, q_first, is_beyond, start, size, BLOCK)
        largest = tl.maximum(largest, weight)
    exponent = tl.max(largest, 0).to(tl.int32, bitcast=True) >> 23
    scale = ((297 - tl.maximum(exponent, 43)) << 23).to(tl.float32, bitcast=True)
    total = tl.zeros([BLOCK], tl.int64)
    for start in range(0, size, BLOCK):
        at, value, weight = _load_beyond(p_first, q_first, is_beyond, start, size, BLOCK)
        total += (weight * scale).to(tl.int64)
    all_of_it = tl.sum(total, 0)
    part = tl.minimum((coin * _COIN).to(tl.int64), _COIN_MASK)
    point = part * (all_of_it >> _COIN_BITS) + ((part * (all_of_it & _COIN_MASK)) >> _COIN_BITS)
    # How many tokens end at or before the point; before the block that holds it all of them do.
    before, ended = tl.full([], 0, tl.int64), tl.full([], 0, tl.int32)
    for start in range(0, size, BLOCK):
        at, value, weight = _load_beyond(p_first, q_first, is_beyond, start, size, BLOCK)
        ends = before + tl.cumsum((weight * scale).to(tl.int64), 0)
        ended += tl.sum(((ends <= point) & (at < size)).to(tl.int32), 0)
        before += tl.sum((weight * scale).to(tl.int64), 0)
    return tl.minimum(ended, size - 1).to(tl.int64)


@triton.jit  # type: ignore[untyped-decorator]
def draw_row(weights, coins, tokens, size, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201
    """Draw the token of one row with its coin; see `draw.draw`."""
    row = tl.program_id(0).to(tl.int64)
    first = weights + row * size
    tl.store(tokens + row, draw_beyond(first, first, row < 0, tl.load(coins + row), size, BLOCK))


@triton.jit
def _mixed(state, word):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    word = (word * 0xCC9E2D51).to(tl.uint32)
    word = ((word << 15) | (word >> 17)).to(tl.uint32)
    state = state ^ (word * 0x1B873593).to(tl.uint32)
    state = ((state << 13) | (state >> 19)).to(tl.uint32)
    return (state * 5 + 0xE6546B64).to(tl.uint32)


@triton.jit
def _hashed(seed, position, tokens):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    """MurmurHash3 (x86, 32 bits) of 16 bytes: seed, position, token."""
    state = tl.zeros_like(tokens).to(tl.uint32)
    state = _mixed(state, (seed & 0xFFFFFFFF).to(tl.uint32))
    state = _mixed(state, ((seed >> 32) & 0xFFFFFFFF).to(tl.uint32))
    state = _mixed(state, position.to(tl.uint32))
    state = _mixed(state, tokens.to(tl.uint32))
    state = state ^ 16
    state = ((state ^ (state >> 16)) * 0x85EBCA6B).to(tl.uint32)
    state = ((state ^ (state >> 13)) * 0xC2B2AE35).to(tl.uint32)
    return state ^ (state >> 16)


@triton.jit
def _exponential(hashed):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    """Return exponential variables: a copy of `noise.exponentials` for Triton."""
    above = tl.maximum(0xFFFFFFFF - hashed.to(tl.int64), 1)
    is_near = above < 1073741824
    rest = above.to(tl.float32) * 2.3283064365386963e-10
    bits = tl.maximum(hashed.to(tl.int64), 1).to(tl.float32).to(tl.int32, bitcast=True)
    fraction = ((bits & 0x7FFFFF) | 0x3F800000).to(tl.float32, bitcast=True)
    is_high = fraction > _ROOT2
    fraction = tl.where(is_high, fraction * 0.5, fraction)
    halvings = tl.where(is_near, 0, 32 - ((bits >> 23) - 127) - is_high.to(tl.int32)).to(tl.float32)
    x = tl.div_rn(tl.where(is_near, rest, 1.0 - fraction), tl.where(is_near, 2.0 - rest, 1.0 + fraction))
    square = x * x
    series = ((square * (1 / 9) + 1 / 7) * square + 1 / 5) * square + 1 / 3
    series = (series * square + 1.0) * (x + x)
    return halvings * _LN2 + series


@triton.jit  # type: ignore[untyped-decorator]
def score_part(probs, seeds, positions, scores, places, size, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201
    """Find the best token within one block of a seeded row; see `draw.drawn`."""
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    seed, position = tl.load(seeds + row), tl.load(positions + row)
    if seed != -1:
        at, value = _load(probs + row * size, part * BLOCK, size, BLOCK)
        score = tl.div_rn(value, _exponential(_hashed(seed, position, at)))
        best = tl.max(score, 0)
        into = row * tl.num_programs(1) + part
        tl.store(scores + into, best)
        tl.store(places + into, tl.min(tl.where(score == best, at, size), 0))  # the first of equals


@triton.jit  # type: ignore[untyped-decorator]
def take_best(tokens, seeds, scores, places, size, parts, PARTS: tl.constexpr):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201
    """Replace the token of a seeded row with the best token of its blocks."""
    row = tl.program_id(0).to(tl.int64)
    if tl.load(seeds + row) != -1:
        part = tl.arange(0, PARTS)
        score = tl.load(scores + row * parts + part, mask=part < parts, other=-1.0)
        place = tl.load(places + row * parts + part, mask=part < parts, other=0)
        found = tl.min(tl.where(score == tl.max(score, 0), place, size), 0)
        tl.store(tokens + row, tl.minimum(found, size - 1).to(tl.int64))


def truncate(probs_RV: Tensor, cuts: Cuts) -> Tensor:
    """Filter and normalize every row of float32 `probs_RV`."""
    rows, size = probs_RV.shape
    cut_RV = torch.empty(rows, size, device=probs_RV.device)
    filters = (cuts.top_ks.to(torch.int32), cuts.top_ps.float(), cuts.min_ps.float())
    chosen = [each.contiguous() for each in filters]
    truncate_row[(rows,)](probs_RV.contiguous(), *chosen, cut_RV, size, BLOCK=BLOCK, num_warps=WARPS)
    return cut_RV


def draw(weights_RV: Tensor, coins_R: Tensor) -> Tensor:
    """Draw one token per row of float32 weights."""
    rows, size = weights_RV.shape
    tokens_R = torch.empty(rows, dtype=torch.int64, device=weights_RV.device)
    coins_R = coins_R.float().contiguous()
    draw_row[(rows,)](weights_RV.contiguous(), coins_R, tokens_R, size, BLOCK=BLOCK, num_warps=WARPS)
    return tokens_R


def reseed(tokens_R: Tensor, probs_RV: Tensor, seeds_R: Tensor, positions_R: Tensor) -> Tensor:
    """
    Replace the tokens of seeded rows.

    Each block of a row is a separate program: a draft of one request is one row, whose noise takes a hundred operations
    per token and would occupy a single multiprocessor for longer than the draft itself takes.
    """
    rows, size = probs_RV.shape
    parts, device = triton.cdiv(size, BLOCK), probs_RV.device
    tokens_R = tokens_R.to(torch.int64, copy=True)
    seeds_R, positions_R = seeds_R.to(torch.int64).contiguous(), positions_R.to(torch.int64).contiguous()
    scores_RP = torch.empty(rows, parts, device=device)
    places_RP = torch.empty(rows, parts, dtype=torch.int32, device=device)
    score_part[(rows, parts)](
        probs_RV.contiguous(),
        seeds_R,
        positions_R,
        scores_RP,
        places_RP,
        size,
        BLOCK=BLOCK,
        num_warps=WARPS,
        enable_fp_fusion=False,
    )
    take_best[(rows,)](tokens_R, seeds_R, scores_RP, places_RP, size, parts, PARTS=triton.next_power_of_2(parts))
    return tokens_R
