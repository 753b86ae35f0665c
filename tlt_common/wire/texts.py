"""
How long the texts of a request may be: ids, names, keys, salts, paths.

Checked for every message of every service before anything is made of it, so that no table that is keyed by a caller's
texts can grow by their length. What a service knows better, its decoder refuses by its own limit (`domain.bounds`).
"""

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from tlt_common.domain.bounds import MAX_INTERNAL_ID, MAX_NAME, MAX_URI
from tlt_common.errors import InvalidRequestError

LIMITS = {
    "request_ids": MAX_INTERNAL_ID,
    "gateway_id": MAX_NAME,
    "worker_id": MAX_NAME,
    "worker_ids": MAX_NAME,
    "owner": MAX_NAME,
    "hang_up": MAX_INTERNAL_ID,
}
"""Characters of texts, by the field's name; of others, `MAX_URI`."""
DECODED = frozenset({"tlt.common.v1.Prompt"})
"""Messages of which requests have thousands: their decoders look at every text, in a thread if they are many."""
CUT = frozenset({"tlt.coordinator.v1.WorkerStatus.problem"})
"""Texts that are cut, not refused, when they are decoded."""


class _Field(NamedTuple):
    name: str
    is_list: bool
    most: int
    """Characters; 0: it is a message."""


def require_short_texts(message: Message, within: str = "") -> None:
    """
    Check the length of every text of a request.

    Raises:
        InvalidRequestError: One is too long; `field` is its path.
    """
    for name, is_list, most in _fields(message.DESCRIPTOR):
        if not is_list and not most and not message.HasField(name):
            continue
        value: Any = getattr(message, name)
        for place, each in enumerate(value) if is_list else ((-1, value),):
            if not most or len(each) > most:
                path = f"{within}{name}[{place}]" if is_list else f"{within}{name}"
                if not most:
                    require_short_texts(each, f"{path}.")
                    continue
                raise InvalidRequestError(f"{path} has {len(each)} characters; accepted: at most {most}", field=path)


@cache
def _fields(kind: Descriptor) -> tuple[_Field, ...]:
    """Return the fields of a message that are texts, or have texts in them."""
    return tuple(
        _Field(field.name, field.is_repeated, 0 if field.message_type else LIMITS.get(field.name, MAX_URI))
        for field in kind.fields
        if field.full_name not in CUT and _has_text(field)
    )


def _has_text(field: FieldDescriptor) -> bool:
    if (kind := field.message_type) is None:
        return field.type == FieldDescriptor.TYPE_STRING
    return kind.full_name not in DECODED and any(_has_text(inner) for inner in _inner(kind))


def _inner(kind: Descriptor) -> Iterator[FieldDescriptor]:
    """Yield the fields of a message, without those of its own type."""
    return (field for field in kind.fields if field.message_type is not kind)
