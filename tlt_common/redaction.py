"""Removes credentials from text that is logged, sent or printed."""

import re
from typing import Any

HIDDEN = "***"

_USER_INFO = re.compile(r"(?P<scheme>\b[A-Za-z][A-Za-z0-9+.-]*://)[^/?#\s@'\"]*:[^/?#\s@'\"]*@")


def redacted(text: str) -> str:
    """Return the text with `user:password@` in URLs replaced."""
    return _USER_INFO.sub(rf"\g<scheme>{HIDDEN}@", text) if "@" in text else text


def redacted_value(value: Any) -> Any:
    """Return a value of a log event with all its text redacted, also inside lists and mappings."""
    match value:
        case str():
            return redacted(value)
        case dict():
            return {key: redacted_value(inner) for key, inner in value.items()}
        case list() | tuple():
            return [redacted_value(inner) for inner in value]
        case _:
            return value
