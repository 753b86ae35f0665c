"""Fields of a journal's lines: what each accepts. Pure."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Protocol, Self, TypeAlias, get_args, get_type_hints

MAX_TIME_S = 1e11
"""Later than any Unix time that a clock shows."""
MAX_COUNT = 2**53
MAX_TEXT = 1000
"""Characters of a name or a version."""


class FieldError(ValueError):
    """A value is not accepted."""

    def __init__(self, field: str, value: object, accepted: str) -> None:
        super().__init__(field)
        self.field = field
        self.value = value
        self.accepted = accepted

    def within(self, outer: str) -> "FieldError":
        """Return the error as one of a field inside another."""
        return FieldError(f"{outer}.{self.field}" if self.field else outer, self.value, self.accepted)


class Field(Protocol):
    """How a field is written and read."""

    def write(self, value: Any) -> Any:
        """Return the value as JSON has it."""

    def read(self, value: Any) -> Any:
        """
        Return the value that JSON has.

        Raises:
            FieldError: It is not accepted.
        """


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number."""

    least: int = 0

    def write(self, value: int) -> int:
        return value

    def read(self, value: Any) -> int:
        if type(value) is int and self.least <= value <= MAX_COUNT:
            return value
        raise FieldError("", value, f"a whole number of at least {self.least}")


@dataclass(frozen=True, slots=True)
class Decimal:
    """A number, written with so many digits after the point."""

    digits: int
    most: float
    what: str
    least: float = 0.0

    def write(self, value: float) -> float:
        return round(value, self.digits)

    def read(self, value: Any) -> float:
        if type(value) in {int, float} and self.least <= value <= self.most:
            return float(value)
        raise FieldError("", value, self.what)


@dataclass(frozen=True, slots=True)
class Flag:
    """True or false."""

    def write(self, value: bool) -> bool:
        return value

    def read(self, value: Any) -> bool:
        if type(value) is bool:
            return value
        raise FieldError("", value, "true or false")


@dataclass(frozen=True, slots=True)
class ShortText:
    """A name; empty if it may be."""

    least: int = 1

    def write(self, value: str) -> str:
        return value[:MAX_TEXT]

    def read(self, value: Any) -> str:
        if isinstance(value, str) and self.least <= len(value) <= MAX_TEXT:
            return value
        raise FieldError("", value, f"a string of {self.least} to {MAX_TEXT} characters")


@dataclass(frozen=True, slots=True)
class OneOf:
    """A value of an enumeration."""

    kind: type[StrEnum]

    def write(self, value: StrEnum) -> str:
        return value.value

    def read(self, value: Any) -> StrEnum:
        if isinstance(value, str) and value in {one.value for one in self.kind}:
            return self.kind(value)
        raise FieldError("", value, ", ".join(self.kind))


@dataclass(frozen=True, slots=True)
class OrNull:
    """A field that may be null."""

    of: Field

    def write(self, value: Any) -> Any:
        return None if value is None else self.of.write(value)

    def read(self, value: Any) -> Any:
        try:
            return None if value is None else self.of.read(value)
        except FieldError as error:
            raise FieldError(error.field, error.value, f"{error.accepted}, or null") from None


@dataclass(frozen=True, slots=True)
class Several:
    """A list."""

    of: Field

    def write(self, value: tuple[Any, ...]) -> list[Any]:
        return [self.of.write(one) for one in value]

    def read(self, value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise FieldError("", value, "a list")
        found = list[Any]()
        for place, one in enumerate(value):
            try:
                found.append(self.of.read(one))
            except FieldError as error:
                raise error.within(f"[{place}]") from None
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Inner:
    """An object within a line."""

    kind: "type[JournalRecord]"

    def write(self, value: "JournalRecord") -> dict[str, Any]:
        return value.to_values()

    def read(self, value: Any) -> "JournalRecord":
        if not isinstance(value, dict):
            raise FieldError("", value, "an object")
        return self.kind.from_values(value)


class JournalRecord:
    """
    Base class of what consists of fields: a frozen dataclass whose annotations say how each is written and read.

    Attributes:
        omitted: Values of a JSON object that do not belong to its fields.
    """

    omitted: ClassVar[frozenset[str]] = frozenset()

    def check(self) -> None:
        """
        Check what fields say together.

        Raises:
            FieldError: It is impossible.
        """

    def to_values(self) -> dict[str, Any]:
        """Return the values as JSON has them."""
        return {name: field.write(getattr(self, name)) for name, field in _fields(type(self)).items()}

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        """
        Return what values of JSON say.

        Raises:
            FieldError: A field is missing, unknown or not accepted.
        """
        known = _fields(cls)
        if unknown := sorted(values.keys() - known.keys() - cls.omitted):
            raise FieldError(unknown[0], values[unknown[0]], f"fields {', '.join(known)}")
        read = dict[str, Any]()
        for name, field in known.items():
            try:
                read[name] = field.read(values.get(name, MISSING))
            except FieldError as error:
                raise error.within(name) from None
        found = cls(**read)
        found.check()
        return found


_KNOWN: dict[type[Any], Mapping[str, Field]] = {}


def _fields(kind: type[Any]) -> Mapping[str, Field]:
    if (known := _KNOWN.get(kind)) is None:
        hints = get_type_hints(kind, include_extras=True)
        known = _KNOWN[kind] = {one.name: get_args(hints[one.name])[1] for one in fields(kind)}
    return known


_TIME = Decimal(3, MAX_TIME_S, "a Unix time in seconds")
_SECONDS = Decimal(6, MAX_TIME_S, "seconds, at least 0")
_SHARE = Decimal(6, 1.0, "a share from 0 to 1")

Time: TypeAlias = Annotated[float, _TIME]
"""Unix time, on the clock that the header names."""
TimeOrNull: TypeAlias = Annotated[float | None, OrNull(_TIME)]
Seconds: TypeAlias = Annotated[float, _SECONDS]
Ratio: TypeAlias = Annotated[float, Decimal(6, MAX_TIME_S, "a number, at least 0")]
SignedOrNull: TypeAlias = Annotated[float | None, OrNull(Decimal(9, MAX_TIME_S, "a number", -MAX_TIME_S))]
Share: TypeAlias = Annotated[float, _SHARE]
ShareOrNull: TypeAlias = Annotated[float | None, OrNull(_SHARE)]
Count: TypeAlias = Annotated[int, Whole()]
Positive: TypeAlias = Annotated[int, Whole(1)]
CountOrNull: TypeAlias = Annotated[int | None, OrNull(Whole())]
Counts: TypeAlias = Annotated[tuple[int, ...], Several(Whole())]
Name: TypeAlias = Annotated[str, ShortText()]
Names: TypeAlias = Annotated[tuple[str, ...], Several(ShortText())]
Note: TypeAlias = Annotated[str, ShortText(0)]
Yes: TypeAlias = Annotated[bool, Flag()]
