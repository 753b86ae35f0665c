"""Counter-based hash of seeded sampling."""

import torch
from torch import Tensor

_MASK = 0xFFFFFFFF


def _rotate_left(value: Tensor, bits: int) -> Tensor:
    return ((value << bits) | (value >> (32 - bits))) & _MASK


def _multiply(value: Tensor, factor: int) -> Tensor:
    # int64 holds the product of 32 by 16 bits; the full 64-bit product would overflow its sign.
    return ((value & 0xFFFF) * factor + ((((value >> 16) * factor) & 0xFFFF) << 16)) & _MASK


def _mix(state: Tensor, block: Tensor) -> Tensor:
    block = _multiply(_rotate_left(_multiply(block & _MASK, 0xCC9E2D51), 15), 0x1B873593)
    return (_multiply(_rotate_left(state ^ block, 13), 5) + 0xE6546B64) & _MASK


def _as_int64(value: Tensor) -> Tensor:
    return value.view(torch.int64) if value.dtype == torch.uint64 else value.to(torch.int64)


def murmur_hash32_cpu(seed: Tensor, positions: Tensor, col_indices: Tensor) -> Tensor:
    """
    Return MurmurHash3 (x86, 32 bit, initial state 0) of the blocks seed low, seed high, position, column.

    Args:
        seed: [B] 64-bit seeds.
        positions: [B] positions in the sequence.
        col_indices: [N] columns.

    Returns:
        [B, N] uint32, equal to those of SGLang's Triton kernel of that name.
    """
    seed_B, position_B = _as_int64(seed), _as_int64(positions)
    state_B = _mix(torch.zeros_like(seed_B), seed_B & _MASK)
    state_B = _mix(state_B, (seed_B >> 32) & _MASK)
    state_B = _mix(state_B, position_B & _MASK)
    hash_B_N = _mix(state_B.view(-1, 1), _as_int64(col_indices).view(1, -1)) ^ 16  # 16 bytes were mixed in
    hash_B_N = _multiply(hash_B_N ^ (hash_B_N >> 16), 0x85EBCA6B)
    hash_B_N = _multiply(hash_B_N ^ (hash_B_N >> 13), 0xC2B2AE35)
    return (hash_B_N ^ (hash_B_N >> 16)).to(torch.uint32)
