"""Counter-based hash for seeded sampling."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Words = NDArray[np.uint32]


def _rotate_left(value: Words, bits: int) -> Words:
    return (value << np.uint32(bits)) | (value >> np.uint32(32 - bits))


def _scrambled(block: Words) -> Words:
    return _rotate_left(block * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)


def _mix(state: Words, block: Words) -> Words:
    return _rotate_left(state ^ _scrambled(block), 13) * np.uint32(5) + np.uint32(0xE6546B64)


def _low_words(value: NDArray[np.uint64]) -> Words:
    return value.astype(np.uint32)  # what is above 32 bits is dropped


def _as_uint64(value: Tensor) -> NDArray[np.uint64]:
    signed = value.view(torch.int64) if value.dtype == torch.uint64 else value.to(torch.int64)
    array: NDArray[np.uint64] = signed.numpy().view(np.uint64)
    return array


def murmur_hash32_cpu(seed: Tensor, positions: Tensor, col_indices: Tensor) -> Tensor:
    """
    Return MurmurHash3 (x86, 32 bit, initial state 0) of the blocks seed low, seed high, position, column.

    Uses NumPy, whose unsigned integers wrap around: torch cannot shift or multiply them, and takes seven times as long
    for a small vocabulary.

    Args:
        seed: [B] 64-bit seeds.
        positions: [B] positions in the sequence.
        col_indices: [N] columns.

    Returns:
        [B, N] uint32, equal to those of SGLang's Triton kernel of that name.
    """
    seed_B = _as_uint64(seed)
    state_B = _mix(np.zeros(len(seed_B), np.uint32), _low_words(seed_B))
    state_B = _mix(state_B, _low_words(seed_B >> np.uint64(32)))
    state_B = _mix(state_B, _low_words(_as_uint64(positions)))
    hash_B_N = _mix(state_B[:, None], _low_words(_as_uint64(col_indices))[None]) ^ np.uint32(16)  # bytes mixed in
    hash_B_N = (hash_B_N ^ (hash_B_N >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    hash_B_N = (hash_B_N ^ (hash_B_N >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return torch.from_numpy(hash_B_N ^ (hash_B_N >> np.uint32(16)))
