"""Folds changes of weights into the weights that they change: pure, but for reading files."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tlt_common.domain.weights import INDICES, VALUES, TensorChunk
from tlt_common.errors import WeightsError
from tlt_common.weights.checkpoint import Piece, entries_in, pieces_of
from tlt_common.weights.safetensors_file import DTYPE_BYTES, TensorEntry

Place: TypeAlias = tuple[Path, TensorEntry]
"""A tensor in a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaElements:
    """Changed elements of a tensor, in ascending order."""

    indices: NDArray[np.int64]
    values: NDArray[Any]
    """As unsigned integers of their size: bits are copied, not numbers."""

    @classmethod
    def of(cls, target: TensorEntry, indices: Place, values: Place) -> "DeltaElements":
        """
        Read the changed elements of a tensor.

        Raises:
            WeightsError: They do not fit the tensor, or one comes twice.
        """
        if values[1].dtype != target.dtype:
            raise WeightsError(f"{values[1].name} has type {values[1].dtype}; the served tensor has {target.dtype}")
        if indices[1].dtype != "I64" or len(indices[1].shape) != 1 or indices[1].shape != values[1].shape:
            raise WeightsError(
                f"{indices[1].name} is {indices[1].dtype}{list(indices[1].shape)}, {values[1].name} has shape "
                f"{list(values[1].shape)}; accepted: I64, one-dimensional, as many as values"
            )
        places = _read(indices, "<i8")
        order = np.argsort(places, kind="stable")
        places = places[order]
        count = prod(target.shape)
        if places.size and (places[0] < 0 or places[-1] >= count):
            raise WeightsError(f"{indices[1].name} has {places[0]} to {places[-1]}; accepted: 0 to {count - 1}")
        if places.size and bool(np.any(places[1:] == places[:-1])):
            raise WeightsError(f"{indices[1].name} has duplicate indices; they must be unique")
        return cls(indices=places, values=_read(values, f"<u{DTYPE_BYTES[target.dtype]}")[order])

    def folded(self, piece: Piece) -> TensorChunk:
        """Return a piece of the tensor with its changed elements."""
        chunk = piece.read()
        first = piece.offset_bytes // self.values.itemsize
        begin, end = np.searchsorted(self.indices, (first, first + piece.length // self.values.itemsize))
        data = np.frombuffer(chunk.data, self.values.dtype).copy()
        data[self.indices[begin:end] - first] = self.values[begin:end]
        return TensorChunk(
            name=chunk.name, dtype=chunk.dtype, shape=chunk.shape, offset_bytes=chunk.offset_bytes, data=data.tobytes()
        )


def folded(base: Path, changes: Path, *, without: str = "") -> Iterator[TensorChunk]:
    """
    Yield all tensors of a checkpoint with changes, in pieces. All changes are checked before the first is yielded.

    Args:
        base: A checkpoint.
        changes: Tensors that replace those of the same names, and elements as in `tlt_common.domain.weights`.
        without: A tensor of the base that is left out unless it is changed.

    Raises:
        OSError: A file cannot be read.
        WeightsError: A change does not fit.
    """
    served = {entry.name: (file, entry) for file, entry in entries_in(base)}
    changed = {entry.name: (file, entry) for file, entry in entries_in(changes)}
    elements = _checked(served, changed)
    for name, (file, entry) in served.items():
        if name in elements:
            found = DeltaElements.of(entry, *elements[name])
            yield from (found.folded(piece) for piece in pieces_of(file, entry))
        elif name in changed or name != without:
            yield from (piece.read() for piece in pieces_of(*changed.get(name, (file, entry))))


def _checked(served: Mapping[str, Place], changed: Mapping[str, Place]) -> dict[str, tuple[Place, Place]]:
    """Return the indices and values of the tensors that change in part, once every change is known to fit."""
    elements: dict[str, tuple[Place, Place]] = {}
    for name, place in changed.items():
        target = name.removesuffix(INDICES).removesuffix(VALUES)
        if target not in served:
            raise WeightsError(f"tensor {target} is not in the served weights and cannot be changed")
        if name == target:
            if place[1].shape != served[name][1].shape:
                raise WeightsError(
                    f"tensor {name} has shape {list(place[1].shape)}; the served one has {list(served[name][1].shape)}"
                )
            continue
        if target in changed:
            raise WeightsError(f"tensor {target} was sent both whole and as {name}; send one of them")
        if (target + INDICES) not in changed or (target + VALUES) not in changed:
            raise WeightsError(f"{name} was sent alone; send both {target}{INDICES} and {target}{VALUES}")
        elements[target] = changed[target + INDICES], changed[target + VALUES]
    for target, pair in elements.items():
        DeltaElements.of(served[target][1], *pair)
    return elements


def _read(place: Place, dtype: str) -> NDArray[Any]:
    file, entry = place
    with file.open("rb") as stream:
        stream.seek(entry.start)
        return np.frombuffer(stream.read(entry.end - entry.start), dtype)
