"""Formats callers' values for messages. Values are truncated before formatting, since callers choose their size."""

from reprlib import Repr
from typing import Any

_REPR = Repr()
_REPR.maxstring = _REPR.maxother = 80
_REPR.maxlist = _REPR.maxtuple = _REPR.maxdict = 4
_REPR.maxlevel = 3
_DIGITS = 10**40


def shown(value: Any) -> str:
    """Return a value formatted for a message, in at most 80 characters."""
    if isinstance(value, int) and not -_DIGITS < value < _DIGITS:
        return f"a number of {value.bit_length()} bits"
    return _REPR.repr(value)[:80]
