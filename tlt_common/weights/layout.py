"""Layout of a stream's tensors in a safetensors file. Pure: the pieces determine the file."""

import json
import math
from dataclasses import dataclass

from tlt_common.domain.weights import ADAPTER_CONFIG, INDICES, MAX_WEIGHTS_BYTES, TensorChunk
from tlt_common.errors import WeightsError
from tlt_common.weights.safetensors_file import DTYPE_BYTES

FILE_NAME = "model.safetensors"
"""Name of the file in a spool's directory."""
HEADER_BYTES = 8 * 2**20
"""Space reserved for the header, which is written last and padded with spaces. Enough for about 60,000 tensors: GLM-4.5
has 43,000 experts' tensors."""


_WEIGHTS = ("BF16", "F16", "F32", "F8_E4M3")
_PLACES = ("I64",)
"""Type of the indices of changed elements."""
_TEXT = ("U8",)
"""Type of an adapter's configuration."""


@dataclass(slots=True, kw_only=True)
class _Entry:
    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int
    placed: int = 0


class SpoolLayout:
    """
    Tensors in sequence, in the order of their first pieces.

    Pieces of a tensor must be placed in order; tensors may be interleaved.
    """

    def __init__(self, *, max_bytes: int = MAX_WEIGHTS_BYTES) -> None:
        self._max_bytes = max_bytes
        self._entries: dict[str, _Entry] = {}
        self.size_bytes = 0
        """Total bytes of all tensors of which a piece was placed."""

    def position(self, piece: TensorChunk) -> int:
        """
        Return the byte offset in the file at which a piece belongs.

        Raises:
            WeightsError: It does not continue its tensor, contradicts earlier pieces, or exceeds the maximum size.
        """
        entry = self._entry(piece)
        if (piece.dtype, piece.shape) != (entry.dtype, entry.shape):
            raise _refused(piece, f"is {piece.dtype}{list(piece.shape)}, was {entry.dtype}{list(entry.shape)}")
        if piece.offset_bytes != entry.placed:
            raise _refused(piece, f"continues at byte {piece.offset_bytes}; accepted: {entry.placed}")
        if not 0 <= piece.size_bytes <= entry.end - entry.start - entry.placed:
            raise _refused(piece, f"has more than the {entry.end - entry.start} bytes of its shape")
        return 8 + HEADER_BYTES + entry.start + entry.placed

    def place(self, piece: TensorChunk) -> None:
        """Note that a piece is at its position."""
        self._entries[piece.name].placed += piece.size_bytes

    def header(self) -> bytes:
        """
        Return the start of the file, up to the first tensor.

        Raises:
            WeightsError: There is no tensor, one is incomplete, or there are too many for the header.
        """
        if not self._entries:
            raise WeightsError("the stream contains no tensor", field="tensor")
        for name, entry in self._entries.items():
            if missing := entry.end - entry.start - entry.placed:
                raise WeightsError(
                    f"tensor {name!r} is incomplete: its last {missing} bytes are missing", field="tensor.data"
                )
        header = json.dumps(
            {
                name: {"dtype": entry.dtype, "shape": entry.shape, "data_offsets": [entry.start, entry.end]}
                for name, entry in self._entries.items()
            },
            separators=(",", ":"),
        ).encode()
        if len(header) > HEADER_BYTES:
            raise WeightsError(
                f"the header of {len(self._entries)} tensors exceeds {HEADER_BYTES} bytes; publish a directory instead"
            )
        return HEADER_BYTES.to_bytes(8, "little") + header.ljust(HEADER_BYTES)

    def _entry(self, piece: TensorChunk) -> _Entry:
        if (known := self._entries.get(piece.name)) is not None:
            return known
        if not piece.name or piece.name == "__metadata__":
            raise _refused(piece, "is not a valid tensor name")
        accepted = _PLACES if piece.name.endswith(INDICES) else _TEXT if piece.name == ADAPTER_CONFIG else _WEIGHTS
        if piece.dtype not in accepted:
            raise _refused(piece, f"has dtype {piece.dtype!r}; accepted: {list(accepted)}")
        if any(extent < 0 for extent in piece.shape):
            raise _refused(piece, f"has shape {list(piece.shape)}; accepted: extents of 0 and above")
        size = math.prod(piece.shape) * DTYPE_BYTES[piece.dtype]
        if self.size_bytes + size > self._max_bytes:
            raise _refused(
                piece, f"brings the weights to {self.size_bytes + size} bytes; the maximum is {self._max_bytes}"
            )
        entry = _Entry(dtype=piece.dtype, shape=piece.shape, start=self.size_bytes, end=self.size_bytes + size)
        self.size_bytes += size
        self._entries[piece.name] = entry
        return entry


def _refused(piece: TensorChunk, what: str) -> WeightsError:
    return WeightsError(f"tensor {piece.name!r} {what}", field="tensor")
