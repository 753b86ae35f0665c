"""
Dataclasses of the domain <-> protobuf messages, by type hints and descriptors.

A field of a dataclass is the message's field of that name; a number of things, `noun` or `nouns`, is also called
`noun_count` there. What differs otherwise is declared with the pair; a field that only one side has fails the import of
the module that declares the pair. By type:

    int, float, str, bool, bytes    the scalar, also under a NewType
    Enum                            the enum of the same names after their prefix; 0 and unknown numbers are refused
    T | None                        a field with presence; None: unset
    tuple[T, ...]                   a repeated field
    a dataclass                     its message; unset: the field's default, refused if it has none

Refusals name the field by its path in the message.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from enum import Enum
from functools import partial
from operator import attrgetter
from types import NoneType
from typing import Any, NamedTuple, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from tlt_common.errors import InvalidRequestError
from tlt_common.wire.rules import CHECKS, Convert, Rule

Value = TypeVar("Value")
Sent = TypeVar("Sent", bound=Message)
Listed = TypeVar("Listed", bound=Enum)
Codec: TypeAlias = tuple[Callable[[Value], Sent], Callable[[Sent], Value]]
"""Encodes, decodes."""


class Field(NamedTuple):
    """A field of another name, or one whose value is not taken as it is."""

    name: str = ""
    """In the message; empty: as usual."""
    read: Rule | None = None
    """Replaces the check of a scalar in `checked` messages; sees a repeated field before it is copied."""
    write: Convert | None = None
    """Returns what is sent for a value."""


class Parts(NamedTuple):
    """A field for which the message has several, or one of another form."""

    write: Mapping[str, Convert]
    """Return each of the message's fields, given the dataclass."""
    read: Rule
    """Returns the value, given the beginning of the fields' paths and the message."""


class Unsent(NamedTuple):
    """A field that the message does not have."""

    value: Any = MISSING
    """What it is in what is received; MISSING: its default."""


Declared: TypeAlias = str | Field | Parts | Unsent

_SCALARS = {
    FieldDescriptor.TYPE_BOOL: bool,
    FieldDescriptor.TYPE_BYTES: bytes,
    FieldDescriptor.TYPE_DOUBLE: float,
    FieldDescriptor.TYPE_INT32: int,
    FieldDescriptor.TYPE_INT64: int,
    FieldDescriptor.TYPE_STRING: str,
}


class Declaration(NamedTuple):
    """A dataclass and its message."""

    kind: type[Any]
    message: type[Message]
    checked: bool = False
    declared: Mapping[str, Declared] = {}

    def codec(self, within: str = "", *, checked: bool = False) -> Codec[Any, Any]:
        """
        Return the functions that encode and decode.

        Args:
            within: Beginning of the paths of the message's fields.
            checked: Whether the message is within one that is checked.

        Raises:
            TypeError: Only one side has a field, or the types of both do not fit.
        """
        kind, message, hints = self.kind, self.message, get_type_hints(self.kind)
        left: dict[str, Any] = dict(message.DESCRIPTOR.fields_by_name)
        checked = checked or self.checked
        writes: dict[str, Convert] = {}
        reads: dict[str, Convert] = {}

        def found(name: str, *names: str) -> Any:
            for each in names:
                if each in left:
                    return left.pop(each)
            raise TypeError(f"{kind.__name__}.{name} is not in {message.DESCRIPTOR.full_name}")

        for field in fields(kind):
            match self.declared.get(field.name, ""):
                case Unsent(value):
                    if value is not MISSING:
                        reads[field.name] = partial(_first, value)
                case Parts(write, read):
                    writes |= {found(field.name, name).name: part for name, part in write.items()}
                    reads[field.name] = partial(read, within)
                case own:
                    own = Field(own) if isinstance(own, str) else own
                    usual = (field.name, f"{field.name}_count", f"{field.name.removesuffix('s')}_count")
                    sent = found(field.name, *([own.name] if own.name else usual))
                    writes[sent.name], reads[field.name] = _field(
                        sent, field.name, hints[field.name], field.default, own, f"{within}{sent.name}", checked=checked
                    )
        if alone := left.keys() | (self.declared.keys() - {field.name for field in fields(kind)}):
            raise TypeError(f"{message.DESCRIPTOR.full_name}.{min(alone)} is not in {kind.__name__}")
        written, received = tuple(writes.items()), tuple(reads.items())
        return (
            lambda value: message(**{name: write(value) for name, write in written}),
            lambda message: kind(**{name: read(message) for name, read in received}),
        )


PAIRS: dict[tuple[Any, str], Declaration] = {}
"""All pairs, by the dataclass and the message's name."""


def pair(
    kind: type[Value], message: type[Sent], /, *, within: str = "", checked: bool = False, **declared: Declared
) -> Codec[Value, Sent]:
    """
    Declare a dataclass and its message; return the functions that encode and decode.

    Args:
        kind: The dataclass.
        message: The message.
        within: Beginning of the paths of the message's fields, if it is decoded as a field of another one.
        checked: Refuse what `CHECKS` does not accept, in messages within this one, too.
        declared: What is not as usual, by field of the dataclass; a text is the name in the message.

    Raises:
        TypeError: Only one side has a field, or the types of both do not fit.
    """
    codec = (made := Declaration(kind, message, checked, declared)).codec(within)
    PAIRS[kind, message.DESCRIPTOR.full_name] = made
    return codec


def either(message: type[Sent], /, **parts: type[Value]) -> Codec[Value, Sent]:
    """
    Return the functions for a message that is a `oneof` of messages, each for a dataclass.

    Raises:
        TypeError: The message has other parts.
    """
    [oneof] = message.DESCRIPTOR.oneofs
    messages = {of.name: of.message_type for of in oneof.fields}
    if not set(message.DESCRIPTOR.fields_by_name) == messages.keys() == parts.keys():
        raise TypeError(f"{message.DESCRIPTOR.full_name} has {', '.join(messages)}, not {', '.join(parts)}")
    codecs = {name: _declared(kind, messages[name]).codec(f"{name}.") for name, kind in parts.items()}
    name_of = {kind: name for name, kind in parts.items()}

    def write(value: Value) -> Sent:
        name = name_of[type(value)]
        return message(**{name: codecs[name][0](value)})

    def read(received: Sent) -> Value:
        if (name := received.WhichOneof(oneof.name)) is None:
            *others, last = parts
            accepted = f"{', '.join(others)} or {last}"
            raise InvalidRequestError(f"{oneof.name} is not set; accepted: {accepted}", field=oneof.name)
        value: Value = codecs[name][1](getattr(received, name))
        return value

    return write, read


def numbers_of(kind: type[Listed], descriptor: EnumDescriptor) -> dict[Listed, Any]:
    """
    Return the numbers of an enum's members in messages.

    Raises:
        TypeError: Only one side has a member.
    """
    prefix = descriptor.values[0].name.removesuffix("UNSPECIFIED")
    numbers = {value.name.removeprefix(prefix): value.number for value in descriptor.values[1:]}
    if alone := numbers.keys() ^ kind.__members__.keys():
        raise TypeError(f"one of {kind.__name__} and {descriptor.full_name} has no {', '.join(alone)}")
    return {kind[name]: number for name, number in numbers.items()}


def member_of(members: Mapping[int, Any], path: str, number: int) -> Any:
    """
    Return the member of an enum.

    Raises:
        InvalidRequestError: None has this number.
    """
    if number not in members:
        raise InvalidRequestError(f"{path} is {number}; accepted: {', '.join(members.values())}", field=path)
    return members[number]


def _declared(kind: Any, message: Any) -> Declaration:
    """Return a pair; one in which nothing is unusual need not be declared."""
    return PAIRS.get((kind, message.full_name)) or Declaration(kind, GetMessageClass(message))


def _field(
    of: FieldDescriptor, name: str, hint: Any, default: Any, own: Field, path: str, *, checked: bool
) -> tuple[Convert, Convert]:
    """Return the function that encodes a field, given the dataclass, and the one that decodes it, given the message."""
    args, nested = get_args(hint), of.message_type is not None
    listed, nullable = get_origin(hint) is tuple, NoneType in args
    items = [each for each in args if each not in (NoneType, Ellipsis)] or [hint]
    if len(items) > 1 or listed != of.is_repeated or (nullable != of.has_presence and not nested):
        raise TypeError(f"{of.full_name} is not of type {hint}")
    write, read = _item(of, items[0], path, checked=checked)
    get, received, rule = attrgetter(name), attrgetter(of.name), own.read and partial(own.read, path)
    if listed:
        return (
            _chain(get, own.write, write and (lambda values: [*map(write, values)])),
            _chain(received, rule, (lambda values: tuple(map(read, values))) if read else tuple),
        )
    known = _chain(received, rule or read)
    if not (nullable or nested):
        return _chain(get, own.write, write), known
    unset = None if nullable else default

    def present(message: Any) -> Any:
        if message.HasField(of.name):
            return known(message)
        if unset is MISSING:
            raise InvalidRequestError(f"{path} is not set; accepted: a {items[0].__name__}", field=path)
        return unset

    # What is left out is decoded as the default.
    return _chain(get, own.write, write and (lambda value: None if value == unset else write(value))), present


def _item(of: FieldDescriptor, hint: Any, path: str, *, checked: bool) -> tuple[Convert | None, Convert | None]:
    """Return what encodes and what decodes one value; None: nothing does."""
    if of.message_type is not None:
        return _declared(hint, of.message_type).codec(f"{path}.", checked=checked)
    if of.enum_type is not None:
        numbers = numbers_of(hint, of.enum_type)
        members = {number: member for member, number in numbers.items()}
        return numbers.__getitem__, partial(member_of, members, path)
    base = getattr(hint, "__supertype__", hint)
    if _SCALARS.get(of.type) is not base:
        raise TypeError(f"{of.full_name} is not of type {hint}")
    rule = CHECKS.get(hint, CHECKS.get(base)) if checked else None
    return None, rule and partial(rule, path)


def _chain(first: Convert, *others: Convert | None) -> Convert:
    """Return a function that applies these in turn."""
    for then in filter(None, others):
        first = partial(_then, first, then)
    return first


def _then(first: Convert, then: Convert, value: Any) -> Any:
    return then(first(value))


def _first(value: Any, _: object) -> Any:
    return value
