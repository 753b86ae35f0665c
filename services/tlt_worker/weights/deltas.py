"""Applies changes of weights to their base weights. Pure, except for reading files."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tlt_common.domain.weights import INDICES, VALUES, TensorChunk
from tlt_common.errors import WeightsError
from tlt_common.weights.checkpoint import entries_in, pieces_of
from tlt_common.weights.experts import entries_apart, parts_of, require_one_spelling, require_stacks, stack_shape
from tlt_common.weights.safetensors_file import DTYPE_BYTES, Piece

HELD_CHANGES = 4
"""Tensors whose changed elements are held: the two stacks of a layer are each needed once per expert."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Elements:
    """Changed elements of a tensor, in ascending order."""

    indices: NDArray[np.int64]
    values: NDArray[Any]
    """Values as unsigned integers of the same size: bits are copied, not numbers."""

    @classmethod
    def of(cls, target: Piece, indices: Piece, values: Piece) -> "_Elements":
        """
        Read the changed elements of a tensor.

        Raises:
            WeightsError: They do not fit the tensor, or an element is repeated.
        """
        if values.dtype != target.dtype:
            raise WeightsError(f"{values.name} has type {values.dtype}; the served tensor has {target.dtype}")
        if indices.dtype != "I64" or len(indices.shape) != 1 or indices.shape != values.shape:
            raise WeightsError(
                f"{indices.name} is {indices.dtype}{list(indices.shape)}, {values.name} has shape "
                f"{list(values.shape)}; accepted: I64, one-dimensional, as many as values"
            )
        places = _read(indices, "<i8")
        order = np.argsort(places, kind="stable")
        places = places[order]
        count = prod(target.shape)
        if places.size and (places[0] < 0 or places[-1] >= count):
            raise WeightsError(f"{indices.name} has {places[0]} to {places[-1]}; accepted: 0 to {count - 1}")
        if places.size and bool(np.any(places[1:] == places[:-1])):
            raise WeightsError(f"{indices.name} has duplicate indices; they must be unique")
        return cls(indices=places, values=_read(values, f"<u{DTYPE_BYTES[target.dtype]}")[order])

    def within(self, first: int, count: int) -> "_Elements":
        """Return the changes within a part of the tensor, which starts at element `first`."""
        begin, end = np.searchsorted(self.indices, (first, first + count))
        return _Elements(indices=self.indices[begin:end] - first, values=self.values[begin:end])

    def folded(self, piece: Piece) -> TensorChunk:
        """Return a piece of the tensor with its changes applied."""
        chunk = piece.read()
        first = piece.offset_bytes // self.values.itemsize
        begin, end = np.searchsorted(self.indices, (first, first + piece.length // self.values.itemsize))
        data = np.frombuffer(chunk.data, self.values.dtype).copy()
        data[self.indices[begin:end] - first] = self.values[begin:end]
        return TensorChunk(
            name=chunk.name, dtype=chunk.dtype, shape=chunk.shape, offset_bytes=chunk.offset_bytes, data=data.tobytes()
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Changed:
    """Location of a tensor's changed elements."""

    target: Piece
    indices: Piece
    values: Piece

    def read(self) -> _Elements:
        return _Elements.of(self.target, self.indices, self.values)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ChangedPart:
    """A tensor, or an expert within one, whose elements change."""

    whole: _Changed
    first: int
    count: int


_Changes: TypeAlias = Mapping[str, Piece | _ChangedPart]
"""What replaces served tensors, by their names."""


def folded(base: Path, changes: Path, *, without: str = "", splits_experts: bool = False) -> Iterator[TensorChunk]:
    """
    Yield all tensors of a checkpoint with changes applied, in pieces. All changes are checked before the first piece.

    Args:
        base: A checkpoint.
        changes: Tensors that replace those with the same names, and elements as in `tlt_common.domain.weights`.
        without: A tensor of the base that is omitted unless it is changed.
        splits_experts: Whether stacked experts of either stand for individual ones, which are yielded.

    Raises:
        OSError: A file cannot be read.
        WeightsError: A change does not fit.
    """
    entries = entries_in(base)
    served = {entry.name: entry for entry in (entries_apart(entries) if splits_experts else entries)}
    changed = _changes({entry.name: entry for entry in entries_in(changes)}, served, splits_experts)
    read = lru_cache(HELD_CHANGES)(_Changed.read)
    for name, entry in served.items():
        change = changed.get(name)
        if isinstance(change, _ChangedPart):
            elements = read(change.whole).within(change.first, change.count)
            yield from (elements.folded(piece) for piece in pieces_of(entry))
        elif change is not None or name != without:
            yield from (piece.read() for piece in pieces_of(change or entry))


def _changes(sent: Mapping[str, Piece], served: Mapping[str, Piece], splits_experts: bool) -> _Changes:
    """Return the replacement of each served tensor that changes, after checking that every change fits."""
    shapes = {name: entry.shape for name, entry in served.items()}
    if splits_experts:
        require_one_spelling(map(_target_of, sent))
        require_stacks(((name, entry.shape) for name, entry in sent.items()), shapes, whose="the served weights")
    found: dict[str, Piece | _ChangedPart] = {}
    wholes: list[_Changed] = []
    for name, change in sent.items():
        target = _target_of(name)
        stack = stack_shape(target, shapes) if splits_experts else None
        if target not in served and stack is None:
            raise WeightsError(f"tensor {target} is not in the served weights and cannot be changed")
        if name == target:
            found |= {entry.name: entry for entry in (entries_apart([change]) if stack else [change])}
            if stack is None and change.shape != shapes[name]:
                raise WeightsError(
                    f"tensor {name} has shape {list(change.shape)}; the served one has {list(shapes[name])}"
                )
            continue
        if target in sent:
            raise WeightsError(f"tensor {target} was sent both whole and as {name}; send one of them")
        if (target + INDICES) not in sent or (target + VALUES) not in sent:
            raise WeightsError(f"{name} was sent alone; send both {target}{INDICES} and {target}{VALUES}")
        if name.endswith(VALUES):
            parts = list(parts_of(target, stack)) if stack else [target]
            whole = _Changed(
                target=_whole(target, stack, [served[part] for part in parts]),
                indices=sent[target + INDICES],
                values=change,
            )
            wholes.append(whole)
            first = 0
            for part in parts:
                found[part] = _ChangedPart(whole=whole, first=first, count=prod(shapes[part]))
                first += prod(shapes[part])
    for whole in wholes:
        whole.read()
    return found


def _target_of(name: str) -> str:
    return name.removesuffix(INDICES).removesuffix(VALUES)


def _whole(target: str, stack: tuple[int, ...] | None, parts: list[Piece]) -> Piece:
    """Return a served tensor, or the stack of the served tensors that are its parts."""
    if stack is None:
        return parts[0]
    if len(kinds := {part.dtype for part in parts}) > 1:
        raise WeightsError(f"the experts of {target} are served as {sorted(kinds)}; send them whole")
    return replace(parts[0], name=target, shape=stack)  # the parts may be in several files


def _read(tensor: Piece, dtype: str) -> NDArray[Any]:
    with tensor.file.open("rb") as stream:
        stream.seek(tensor.position)
        return np.frombuffer(stream.read(tensor.length), dtype)
