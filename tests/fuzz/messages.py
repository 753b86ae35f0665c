"""Protobuf messages of any type, drawn from its descriptor: valid ones with a few hostile fields, or mostly empty."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.fuzz import hostile

M = TypeVar("M", bound=Message)

MAX_DEPTH = 5
MANY = (300, 5000, 70_000)
"""Lengths of long repeated fields."""

MAX_MESSAGES = 5000
"""Messages in a repeated field."""
MAX_COPIED_BYTES = 2**21
"""Bytes of one repeated field, about; a field within another one multiplies."""

_BITS = {
    FieldDescriptor.TYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_SINT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_SFIXED32: (-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.TYPE_FIXED32: (0, 2**32 - 1),
    FieldDescriptor.TYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_SINT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_SFIXED64: (-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_UINT64: (0, 2**64 - 1),
    FieldDescriptor.TYPE_FIXED64: (0, 2**64 - 1),
    FieldDescriptor.TYPE_ENUM: (-(2**31), 2**31 - 1),
}


@dataclass(frozen=True, slots=True)
class _Edit:
    """A change of one field, reached from the message by the fields of `path`."""

    path: tuple[FieldDescriptor, ...]
    field: FieldDescriptor
    value: Any


def messages(kind: type[M], valid: Sequence[M] = ()) -> SearchStrategy[M]:
    """
    Return messages of a type.

    Args:
        kind: Class of the messages.
        valid: Messages to start from; without one, from the empty message.
    """
    starts = [*valid, kind()]
    edits = st.one_of([_edits(path, field) for path, field in _fields(kind.DESCRIPTOR)])
    several = st.lists(edits, max_size=4) if any(True for _ in _fields(kind.DESCRIPTOR)) else st.just([])
    return st.builds(_edited, st.sampled_from(starts), several)


def _fields(
    descriptor: Any, path: tuple[FieldDescriptor, ...] = ()
) -> Iterator[tuple[tuple[FieldDescriptor, ...], FieldDescriptor]]:
    for field in descriptor.fields:
        yield path, field
        if field.message_type is not None and not _is_map(field) and len(path) < MAX_DEPTH:
            yield from _fields(field.message_type, (*path, field))


def _edits(path: tuple[FieldDescriptor, ...], field: FieldDescriptor) -> SearchStrategy[_Edit]:
    values = _values(field)
    if field.message_type is not None and _is_map(field):
        key, value = (_values(part) for part in field.message_type.fields)
        values = st.one_of(st.dictionaries(key, value, max_size=4), st.dictionaries(key, value, min_size=300))
    elif field.is_repeated:
        values = st.one_of(st.lists(values, max_size=4), st.builds(_repeated, values, st.sampled_from(MANY)))
    return st.builds(_Edit, st.just(path), st.just(field), st.one_of(st.none(), values, values, values))


def _is_map(field: FieldDescriptor) -> bool:
    kind = field.message_type
    return kind is not None and bool(kind.GetOptions().map_entry)


def _repeated(value: Any, count: int) -> list[Any]:
    size = len(value) if isinstance(value, str | bytes) else 1
    return [value] * min(count, MAX_COPIED_BYTES // max(1, size))


def _values(field: FieldDescriptor) -> SearchStrategy[Any]:
    if field.message_type is not None:
        return st.just(...)
    if field.type in _BITS:
        low, high = _BITS[field.type]
        inside = [number for number in hostile.INTEGERS if low <= number <= high]
        return st.one_of(st.sampled_from(inside), st.integers(max(low, -2), 12), st.integers(low, high))
    simple: dict[int, Callable[[], SearchStrategy[Any]]] = {
        FieldDescriptor.TYPE_STRING: hostile.texts,
        FieldDescriptor.TYPE_BYTES: hostile.blobs,
        FieldDescriptor.TYPE_BOOL: st.booleans,
    }
    return simple.get(field.type, hostile.doubles)()


def _edited(start: M, edits: Sequence[_Edit]) -> M:
    message = type(start)()
    message.CopyFrom(start)
    for edit in edits:
        _apply(message, edit)
    return message


def _apply(message: Message, edit: _Edit) -> None:
    for step in edit.path:
        held = getattr(message, step.name)
        if step.is_repeated:
            message = held[0] if held else held.add()
        else:
            held.SetInParent()
            message = held
    name = edit.field.name
    if edit.value is None:
        message.ClearField(name)
    elif _is_map(edit.field):
        getattr(message, name).clear()
        getattr(message, name).update(edit.value)
    elif edit.field.is_repeated:
        _repeat(message, edit.field, edit.value)
    elif edit.field.message_type is not None:
        getattr(message, name).SetInParent()
    else:
        setattr(message, name, edit.value)


def _repeat(message: Message, field: FieldDescriptor, values: Sequence[Any]) -> None:
    held = getattr(message, field.name)
    if field.message_type is None:
        message.ClearField(field.name)
        getattr(message, field.name).extend(values)
        return
    like = held[0] if held else None
    room = MAX_MESSAGES if like is None else MAX_COPIED_BYTES // max(like.ByteSize(), MAX_COPIED_BYTES // MAX_MESSAGES)
    for _ in values[: max(0, room - len(held))]:
        added = held.add()
        if like is not None:
            added.CopyFrom(like)
