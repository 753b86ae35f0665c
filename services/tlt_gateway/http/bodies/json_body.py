"""Strict JSON parsing: refuses what other parsers accept silently, and does not block the event loop."""

import json
import re
from collections.abc import Sequence
from typing import Any

from tlt_common.documents import finite
from tlt_common.errors import InvalidRequestError

MAX_NESTED = 2**18
"""Lists and objects of a body, brackets within its strings included: 2 bytes that are sent take 72 of memory."""
MAX_OBJECTS = 2**16
"""Objects of a body."""
MAX_STRINGS = 2**18
"""Strings of a body."""
MAX_DIGITS = 320
"""Digits of an integer: more than the largest float has, and than any field takes."""
LARGE_BYTES = 2**16
"""Bodies above it are parsed in a thread."""
_ESCAPED_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def parsed(content: bytes | bytearray) -> Any:
    """
    Parse a body.

    Raises:
        ValueError: It is not JSON in UTF-8, a key is repeated, a number is not finite or far too large, or there are
            too many lists, objects or strings.
        InvalidRequestError: A text has half a surrogate pair.
    """
    _require_few(content)
    try:
        text = content.decode()
        found = _Parser(yields=len(content) > LARGE_BYTES).decode(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start}") from None
    if _ESCAPED_SURROGATE.search(content):
        for name, value in found.items() if isinstance(found, dict) else [("body", found)]:
            _require_unicode([name, value], name if _is_unicode(name) else "body")
    return found


def _require_few(content: bytes | bytearray) -> None:
    nested = content.count(b"[") + content.count(b"{")
    if nested > MAX_NESTED:
        raise ValueError(f"{nested} lists and objects; the maximum is {MAX_NESTED}")
    if content.count(b'"') - content.count(b'\\"') > 2 * MAX_STRINGS:
        raise ValueError(f"more than {MAX_STRINGS} strings")


class _Parser(json.JSONDecoder):
    def __init__(self, *, yields: bool) -> None:
        # Between calls of a function in Python other threads run, which they could not while C parses a large body.
        make = _integer if yields else int
        super().__init__(parse_constant=finite, parse_float=finite, parse_int=make, object_pairs_hook=self._object)
        self._objects = 0

    def _object(self, pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        self._objects += 1
        if self._objects > MAX_OBJECTS:
            raise ValueError(f"more than {MAX_OBJECTS} objects")
        found = dict(pairs)
        if len(found) != len(pairs):
            seen = set[str]()
            twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
            raise ValueError(f"the key {twice[:80]!r} is repeated")
        return found


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits; the maximum is {MAX_DIGITS}")
    return int(digits)


def _require_unicode(value: Any, field: str) -> None:
    """
    Check all strings within a field's value.

    Raises:
        InvalidRequestError: A string has half a surrogate pair, which UTF-8 cannot encode.
    """
    rest = [value]
    while rest:
        match rest.pop():
            case str() as text if not _is_unicode(text):
                raise InvalidRequestError(f"{field} has half a surrogate pair; accepted: Unicode", field=field)
            case dict() as found:
                rest += [*found.keys(), *found.values()]
            case list() as found:
                rest += found


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
