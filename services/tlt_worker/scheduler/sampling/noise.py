"""
Noise of seeded requests: exponential variables that depend on seed, position and token only.

The token with the largest probability / noise is one drawn by the probabilities, and the one with the largest
log-probability plus Gumbel noise, -log of the same variable: what SGLang's plain sampler does in float64 from the same
hash (`layers/sampler.multinomial_with_seed`). In float32, the logarithm of a hash u in (0, 1] would lose what decides:
tokens win by noise near 0, where u is near 1. So it is computed from whichever of u and 1 - u is small, which the hash
has exactly, by additions, multiplications and divisions alone, each correctly rounded: every device computes the same
bits. Its relative error is below 2**-20; that of a token's probability by the 32 bits of the hash is 2**-32. Tokens
differ from those in float64 where two scores are that close.

A token's hash is needed by the draft and by its verification, and by later rounds if the draft was rejected. On a CPU
it is therefore computed once, for several positions by one call (`KeptHashes`), and of hashes only those become noise
whose tokens can win (`winners`): the noise of 50,000 tokens takes as long as a layer of a small model. A GPU computes
both in the kernel that draws (`kernels`): less than the time to read them.

Shapes: R rows, M of them whose hashes are not kept yet, V vocabulary, C tokens of all rows that can win.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

LN2 = 0.6931471805599453
ROOT2 = 1.4142135
MAX_HASH = 2**32 - 1
_BELOW_ROOT2 = 0x7FFFFF - 0x3504F3
"""Fractions of a float32 above `ROOT2`: added to its bits, they carry into the exponent."""
NEAR = 2**30
"""Hashes this close to the largest are a u above 3/4."""

LIKELY = 2.0**-13
"""Share of a row's largest probability below which a token wins only by luck."""
LUCK = 2**22
"""Largest hashes, one in 1,024, whose noise is below 2**-10: that of all others is above."""
OTHERS = 1.01 * LIKELY * 2.0**32 / LUCK
"""The most that a token which is neither likely nor lucky scores, as a share of the largest probability. One in
3,000 rows has no better token, and computes the noise of all."""
_HALF = 2**31
"""Subtracted from hashes, so that an int32 holds them in their order."""

AHEAD = 8
"""Positions of a request whose hashes are computed by one call: those of a round with the longest default chain."""
KEPT_ROWS = 4096
KEPT_BYTES = 64 * 2**20
"""Most that is kept: 16 positions of 256 requests, or with a vocabulary of 160,000 tokens 100 in all."""


def hashes(seeds_R: Tensor, positions_R: Tensor, size: int) -> Tensor:
    """
    Return SGLang's hash of seed, position and token, [R, size], int64 from 0 to `MAX_HASH`.

    `positions_R` are those of the last input tokens: the noise at position t is for the token at t + 1.
    """
    # Imported here: SGLang's kernels exist in its processes only, and tests of the walk do not need them.
    from sglang.kernels.ops.sampling.murmur_hash import murmur_hash32

    columns_V = torch.arange(size, device=seeds_R.device)
    hashed_RV: Tensor = murmur_hash32(seeds_R.to(torch.uint64), positions_R.to(torch.int64), columns_V)
    return hashed_RV.to(torch.int64)


def exponentials(hashed_RV: Tensor) -> Tensor:
    """Return -log(hash / `MAX_HASH`) in float32, at least 2**-32: neither end may give an infinite score."""
    above_RV = (MAX_HASH - hashed_RV).clamp_(min=1)
    is_near_RV = above_RV < NEAR
    rest_RV = above_RV.float().mul_(2.0**-32)  # 1 - u, to 24 bits however small
    bits_RV = hashed_RV.clamp(min=1).float().view(torch.int32)  # of u times 2**32
    # The exponent of a fraction above the root of 2 is one higher: the fraction is then between 0.7 and 1.4.
    exponent_RV = (bits_RV + _BELOW_ROOT2) >> 23
    fraction_RV = (bits_RV - ((exponent_RV - 127) << 23)).view(torch.float32)
    halvings_RV = (159 - exponent_RV).masked_fill_(is_near_RV, 0).float()
    # log((1 + x) / (1 - x)) is 2 x (1 + x**2 / 3 + x**4 / 5 + ...), with x at most 0.172.
    over_RV = torch.where(is_near_RV, rest_RV, 1.0 - fraction_RV)
    x_RV = over_RV / torch.where(is_near_RV, 2.0 - rest_RV, 1.0 + fraction_RV)
    square_RV = x_RV * x_RV
    series_RV = ((square_RV * (1 / 9) + 1 / 7) * square_RV + 1 / 5) * square_RV + 1 / 3
    series_RV = (series_RV * square_RV + 1.0) * (x_RV + x_RV)
    return halvings_RV * LN2 + series_RV


def winners(probs_RV: Tensor, kept_RV: Tensor) -> Tensor:
    """
    Return the token of each row [R] with the largest probability / noise, without computing the noise of all.

    A token can win if it is likely or its hash is among the largest. The winner of these is compared with the highest
    score that any other token could have; if that is higher, noise is computed for the whole row. The result equals
    `(probs_RV / exponentials(hashed_RV)).argmax(-1)`.

    `kept_RV` are hashes from `KeptHashes`.
    """
    top_R = probs_RV.amax(-1)
    can_win_RV = (probs_RV >= (top_R * LIKELY).unsqueeze(1)).logical_or_(kept_RV > _HALF - 1 - LUCK)
    row_C, token_C = can_win_RV.nonzero(as_tuple=True)
    score_C = probs_RV[row_C, token_C] / exponentials(_hashed(kept_RV[row_C, token_C]))
    best_R = torch.full_like(top_R, -1.0).scatter_reduce_(0, row_C, score_C, "amax")
    is_best_C = score_C == best_R[row_C]
    last = torch.full_like(top_R, probs_RV.shape[-1] - 1, dtype=torch.int64)
    won_R = last.scatter_reduce_(0, row_C[is_best_C], token_C[is_best_C], "amin")  # of equals the first
    open_S = (best_R > top_R * OTHERS).logical_not_().nonzero().view(-1)  # also what is not a number
    if len(open_S):
        won_R[open_S] = (probs_RV[open_S] / exponentials(_hashed(kept_RV[open_S]))).argmax(-1)
    return won_R


def _hashed(kept: Tensor) -> Tensor:
    return kept.to(torch.int64) + _HALF


class KeptHashes:
    """
    Cache of hashes of recently drawn seeds and positions, and of the following positions. For a CPU.

    Hashes are a function of seed, position and token, so cached ones are never stale.
    """

    def __init__(self) -> None:
        self._clear(0)

    def of(self, seeds: Sequence[int], positions: Sequence[int], size: int) -> Tensor:
        """Return the hashes of each pair minus 2**31, int32 [R, size]."""
        if size != self._table.shape[1]:
            self._clear(size)
        wanted = list(zip(seeds, positions, strict=True))
        places = [self._place.get(pair) for pair in wanted]
        if None in places:
            self._compute(wanted)
            places = [self._place.get(pair) for pair in wanted]
        if None in places:  # there is no room for as many
            return _kept(hashes(torch.tensor(seeds), torch.tensor(positions), size))
        return self._table.index_select(0, torch.tensor(places, dtype=torch.int64))

    def _clear(self, size: int) -> None:
        rooms = min(KEPT_ROWS, KEPT_BYTES // (4 * size)) if size else 0
        self._table = torch.empty(rooms, size, dtype=torch.int32)
        self._place: dict[tuple[int, int], int] = {}
        """Row of the table by seed and position."""
        self._held: list[tuple[int, int] | None] = [None] * rooms
        """What each row is of. The rows are filled in turn, so that the oldest are overwritten."""
        self._next = 0

    def _compute(self, pairs: Sequence[tuple[int, int]]) -> None:
        """
        Compute the missing hashes of pairs, and those of following positions as far as there is room.

        If one pair is missing, computes ahead for all: requests accept different numbers of tokens, and each would
        otherwise need a separate call a few steps later.
        """
        rooms = len(self._held)
        ahead = max(1, min(AHEAD, rooms // (2 * len(pairs))))
        missing: dict[tuple[int, int], None] = {}
        for seed, position in pairs:
            for step in range(ahead):
                if (pair := (seed, position + step)) not in self._place:
                    missing[pair] = None
        if len(missing) > rooms:
            return
        if self._next + len(missing) > rooms:
            self._next = 0
        first = self._next
        self._next += len(missing)
        for row, pair in enumerate(missing, start=first):
            old, self._held[row] = self._held[row], pair
            if old is not None and self._place.get(old) == row:
                del self._place[old]
            self._place[pair] = row
        seeds_M, positions_M = (torch.tensor(each) for each in zip(*missing, strict=True))
        self._table[first : self._next] = _kept(hashes(seeds_M, positions_M, self._table.shape[1]))


def _kept(hashed: Tensor) -> Tensor:
    return (hashed - _HALF).to(torch.int32)
