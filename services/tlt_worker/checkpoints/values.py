"""Compares the values of tensors in files, without holding more than a piece of each."""

from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tlt_common.errors import WeightsError
from tlt_common.weights.safetensors_file import DTYPE_BYTES, TensorEntry

PIECE_ELEMENTS = 2**21

Place: TypeAlias = tuple[Path, TensorEntry]
"""A tensor in a file."""


def require_equal(head: Place, embedding: Place) -> None:
    """
    Check that a head has the values of the embedding that it is tied to. Blocks on disk reads.

    Raises:
        OSError: A file cannot be read.
        WeightsError: They differ.
    """
    (_, one), (_, other) = head, embedding
    if one.shape != other.shape:
        raise WeightsError(f"tensor {one.name} has shape {list(one.shape)}; {other.name}: {list(other.shape)}")
    count = (one.end - one.start) // DTYPE_BYTES[one.dtype]
    for start in range(0, count, PIECE_ELEMENTS):
        if not _are_equal(head, embedding, start, min(PIECE_ELEMENTS, count - start)):
            raise WeightsError(
                f"tensor {one.name} differs from {other.name}, to which config.json ties it: the engine would drop it. "
                f"Accepted: no {one.name}, or equal values. To train a head of its own, start from a checkpoint with "
                f"tie_word_embeddings: false and a {one.name}"
            )


def _are_equal(one: Place, other: Place, start: int, count: int) -> bool:
    left, right = _read(one, start, count), _read(other, start, count)
    if one[1].dtype == other[1].dtype and left == right:
        return True  # also if there are NaNs
    return np.array_equal(_floats(one[1].dtype, left), _floats(other[1].dtype, right))


def _read(place: Place, start: int, count: int) -> bytes:
    file, entry = place
    size = DTYPE_BYTES[entry.dtype]
    with file.open("rb") as stream:
        stream.seek(entry.start + start * size)
        return stream.read(count * size)


def _floats(dtype: str, data: bytes) -> NDArray[Any]:
    if dtype == "BF16":  # the upper half of a float32
        return (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4")
    return np.frombuffer(data, {"F16": "<f2", "F32": "<f4"}[dtype]).astype("<f4")
