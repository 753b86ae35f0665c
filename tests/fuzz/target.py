"""What is fed with random input, and what counts as harm."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis.strategies import SearchStrategy

from tlt_common.errors import TltError


class HarmError(AssertionError):
    """An input did harm: a crash, a hang, an unexpected exception, or a refusal that does not name a field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A target while it is open."""

    inputs: SearchStrategy[Any]
    feed: Callable[[Any], object]
    """Give it one input. Raises HarmError, or any other exception, if the input did harm."""
    show: Callable[[Any], str] = repr
    """Return an input as text from which it can be reproduced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A reader of untrusted input."""

    name: str
    open: Callable[[Path], AbstractContextManager[Subject]]
    """Prepare it, with an empty directory for its files."""
    weight: float = 1.0
    """Its share of the inputs, relative to the weights of the other targets."""
    skipped: Callable[[], str] = field(default=lambda: "")
    """Return why it cannot be tried on this machine; empty if it can."""


def refused_by_name(error: TltError) -> None:
    """
    Check a refusal.

    Raises:
        HarmError: It names no field.
    """
    if not error.field:
        raise HarmError(f"{type(error).__name__} names no field: {error.message}")
