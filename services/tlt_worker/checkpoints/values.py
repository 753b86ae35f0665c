"""Compares values of tensors in files piece by piece."""

from typing import TYPE_CHECKING, Any

from tlt_common.errors import WeightsError
from tlt_common.weights.safetensors_file import DTYPE_BYTES, Piece

if TYPE_CHECKING:
    from numpy.typing import NDArray

PIECE_ELEMENTS = 2**21


def require_equal(head: Piece, embedding: Piece) -> None:
    """
    Check that a head equals the embedding that it is tied to. Blocks on disk reads.

    Raises:
        OSError: A file cannot be read.
        WeightsError: The values differ.
    """
    if head.shape != embedding.shape:
        raise WeightsError(
            f"tensor {head.name} has shape {list(head.shape)}; {embedding.name}: {list(embedding.shape)}"
        )
    count = head.length // DTYPE_BYTES[head.dtype]
    for start in range(0, count, PIECE_ELEMENTS):
        if not _are_equal(head, embedding, start, min(PIECE_ELEMENTS, count - start)):
            raise WeightsError(
                f"tensor {head.name} differs from {embedding.name}, to which config.json ties it: the engine would "
                f"drop it. Accepted: no {head.name}, or equal values. To train a head of its own, start from a "
                f"checkpoint with tie_word_embeddings: false and a {head.name}"
            )


def _are_equal(one: Piece, other: Piece, start: int, count: int) -> bool:
    import numpy as np  # a fifth of what a command imports that compares nothing

    left, right = _read(one, start, count), _read(other, start, count)
    if one.dtype == other.dtype and left == right:
        return True  # also if there are NaNs
    return np.array_equal(_floats(one.dtype, left), _floats(other.dtype, right))


def _read(tensor: Piece, start: int, count: int) -> bytes:
    size = DTYPE_BYTES[tensor.dtype]
    with tensor.file.open("rb") as stream:
        stream.seek(tensor.position + start * size)
        return stream.read(count * size)


def _floats(dtype: str, data: bytes) -> "NDArray[Any]":
    import numpy as np

    if dtype == "BF16":  # the upper half of a float32
        return (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4")
    return np.frombuffer(data, {"F16": "<f2", "F32": "<f4"}[dtype]).astype("<f4")
