"""Values of a line: validation, with errors that name file, line and field but never show a text. Pure."""

import json
import re
from collections.abc import Mapping
from typing import Any

from tlt_common.errors import ConfigError

MAX_TOKENS = 2**21
"""Of a prompt or a response: twice the longest context that is served."""
MAX_SECONDS = 1e8
"""Three years."""
MAX_STEP = 10**9
MAX_PIECES = 2**19
"""Values and punctuation of a prompt of several messages, as JSON."""
MISSING = object()
_ENCODER = json.JSONEncoder(sort_keys=True, default=lambda _: None)
_NUMBER = re.compile(r"[-+0-9.eE_,]{1,24}|[-+]?(nan|inf|infinity)", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]{0,39}")
_TYPES = {dict: "an object", list: "a list", bool: "true or false", type(None): "null"}


def refused(place: str, field: str, problem: str, accepted: str) -> ConfigError:
    """Return the error for a field at a location."""
    return ConfigError(f"{place}: {field} {problem}; accepted: {accepted}", field="trace")


def shown(value: object) -> str:
    """Return the description of a value for an error: numbers are shown, texts never."""
    if value is MISSING:
        return "is missing"
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return f"is {_TYPES.get(type(value), 'of another type')}"
    if isinstance(value, str):
        return f'is the string "{value}"' if _NUMBER.fullmatch(value) else f"is a string of {len(value)} characters"
    return f"is {value!r:.24}"


def name_of(field: object) -> str:
    """Return a field's name, unless it is a text rather than a name."""
    return field if isinstance(field, str) and _NAME.fullmatch(field) else "of another name"


class LineValues:
    """The fields of a line."""

    __slots__ = ("place", "values")

    def __init__(self, place: str, values: Mapping[str, Any]) -> None:
        self.place = place
        self.values = values

    @classmethod
    def of(cls, place: str, text: bytes, *, is_cut: bool = False) -> "LineValues":
        """
        Parse a JSON object. Python trainers write NaN for missing rewards, which is refused in fields that are read.

        Raises:
            ConfigError: The line is not a JSON object.
        """
        try:
            values = json.loads(text.decode())
        except RecursionError:
            raise refused(place, "the line", "is not JSON: nested too deeply", "one JSON object per line") from None
        except UnicodeDecodeError as error:
            raise refused(place, "the line", f"is not UTF-8 at byte {error.start + 1}", "UTF-8") from None
        except ValueError as error:
            problem = "is cut off, or" if is_cut and isinstance(error, json.JSONDecodeError) else "is"
            raise refused(place, "the line", f"{problem} not JSON: {error}", "one JSON object per line") from None
        if not isinstance(values, dict):
            raise refused(place, "the line", shown(values), "one JSON object per line")
        return cls(place, values)

    def has(self, field: str) -> bool:
        """Whether the field exists and is not null."""
        return self.values.get(field) is not None

    def error(self, field: str, accepted: str) -> ConfigError:
        """Return the error for a field."""
        return refused(self.place, field, shown(self.values.get(field, MISSING)), accepted)

    def whole(self, field: str, *, least: int = 0, most: int = MAX_STEP) -> int:
        """
        Return a whole number.

        Raises:
            ConfigError: The field is not a whole number.
        """
        value = self.values.get(field, MISSING)
        if type(value) is int and least <= value <= most:
            return value
        raise self.error(field, f"a whole number from {least} to {most}")

    def tokens(self, field: str, *, least: int = 1) -> int:
        """
        Return a number of tokens.

        Raises:
            ConfigError: The field is not a number of tokens.
        """
        value = self.values.get(field, MISSING)
        if type(value) is int and least <= value <= MAX_TOKENS:
            return value
        raise self.error(field, f"a whole number of tokens from {least} to {MAX_TOKENS}")

    def sampled(self, field: str, *, of: int | None = None) -> int | None:
        """
        Return the number of sampled tokens in a mask; None if there is no mask, or if it is all zeros, as for responses
        that no batch uses.

        Raises:
            ConfigError: The field is not a list of zeros and ones of length `of`.
        """
        mask = self.values.get(field)
        if mask is None or mask == []:
            return None
        if not isinstance(mask, list) or not all(type(one) in {int, bool, float} and one in {0, 1} for one in mask):
            raise self.error(field, "a list of 0 and 1")
        if of is not None and len(mask) != of:
            raise refused(self.place, field, f"has {len(mask)} values", f"{of}, one for each token of the response")
        return int(sum(mask)) or None

    def seconds(self, field: str, *, most: float = MAX_SECONDS) -> float:
        """
        Return a duration or a time.

        Raises:
            ConfigError: The field is not a number of seconds.
        """
        value = self.values.get(field, MISSING)
        if type(value) in {int, float} and 0 <= value <= most:
            return float(value)
        raise self.error(field, f"seconds, a number from 0 to {most:g}")

    def flag(self, field: str) -> bool:
        """
        Return a boolean.

        Raises:
            ConfigError: The field is not a boolean.
        """
        value = self.values.get(field, MISSING)
        if type(value) is bool:
            return value
        raise self.error(field, "true or false")

    def text(self, field: str) -> str:
        """
        Return a text, for counting and comparison only.

        Raises:
            ConfigError: The field is not a text.
        """
        value = self.values.get(field, MISSING)
        if isinstance(value, str):
            return value
        raise self.error(field, "a string")

    def identity(self, field: str) -> int | str:
        """
        Return the identity of a prompt or group: a whole number or a string.

        Raises:
            ConfigError: The field has another type.
        """
        value = self.values.get(field, MISSING)
        if type(value) is int or (isinstance(value, str) and value):
            return value
        raise self.error(field, "a whole number or a string that is not empty")

    def canonical(self, field: str) -> str:
        """
        Return the same string for equal values, for comparison only.

        Raises:
            ConfigError: The value is nested too deeply or contains itself.
        """
        value, found = self.values[field], list[str]()
        if isinstance(value, str):
            return json.dumps(value)
        try:
            for piece in _ENCODER.iterencode(value):
                found.append(piece)
                if len(found) > MAX_PIECES:  # a few lists, one in another twice, can be endless
                    raise refused(self.place, field, "has too many values", "a prompt")
        except (RecursionError, TypeError, ValueError):
            raise refused(self.place, field, "is nested too deeply, or of another type", "JSON values") from None
        return "".join(found)

    def object(self, field: str) -> "LineValues":
        """
        Return the fields of an object.

        Raises:
            ConfigError: The field is not an object.
        """
        value = self.values.get(field, MISSING)
        if isinstance(value, dict):
            return InnerValues(self.place, value, field)
        raise self.error(field, "an object")

    def objects(self, field: str) -> list["LineValues"]:
        """
        Return the fields of each object in a list.

        Raises:
            ConfigError: The field is not a list of objects.
        """
        value = self.values.get(field, MISSING)
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            raise self.error(field, "a list of objects")
        return [InnerValues(self.place, one, f"{field}[{place}]") for place, one in enumerate(value)]


class InnerValues(LineValues):
    """The fields of an object within a line."""

    __slots__ = ("within",)

    def __init__(self, place: str, values: Mapping[str, Any], within: str) -> None:
        super().__init__(place, values)
        self.within = within

    def error(self, field: str, accepted: str) -> ConfigError:
        return refused(self.place, f"{self.within}.{field}", shown(self.values.get(field, MISSING)), accepted)
