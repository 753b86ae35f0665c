"""Interface of log readers and their results. Pure."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

Identity: TypeAlias = int | str | bytes | tuple[int | str | bytes, ...]
"""What names a prompt or a group. Texts are hashed by who keeps it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundResponse:
    """A response found by a reader."""

    place: str
    """Location, such as FILE:LINE."""
    step: int
    prompt: Identity | None
    """Equal in later epochs; None if the log does not state it."""
    group: Identity | None = None
    """Group within its step; None stands for `prompt`."""
    prompt_tokens: int
    tokens: int
    ends: bool | None
    """Whether it ends by itself; None if the log does not state it."""
    is_counted: bool = False
    """Whether `tokens` was counted in a text, and may be off by a few tokens."""
    after_s: float = 0.0
    """Seconds from the start of its step to its request."""
    seconds: float | None = None
    """Seconds from its request to its last token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundStep:
    """Facts about the step whose responses were found last."""

    place: str
    step: int
    rollout_s: float | None = None
    suite_rollout_s: float | None = None
    """Time of the rollout if it was one with the suite."""
    step_s: float | None = None
    began_s: float | None = None
    """Start time, on any clock."""
    cap: int | None = None
    """Maximum tokens of its responses."""


Found: TypeAlias = FoundResponse | FoundStep


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """Options for reading a log."""

    group: int | None
    """Responses per prompt, for logs that do not state it, or to check; None for any number."""
    cap: int | None
    count: Callable[[list[str]], list[int]] | None
    """Counts the tokens of texts; None without a tokenizer."""
    note: Callable[[str], None]
    """Called with each assumption."""


@dataclass(frozen=True, slots=True)
class FirstLook:
    """Properties of a log by which its form is recognized."""

    path: Path
    first: Mapping[str, Any]
    """First object of a file of JSON lines; empty for other files."""


class TraceForm(Protocol):
    """A form of log."""

    name: str
    about: str
    """One-line description."""
    tokens_field: str
    """Its name for lengths, for errors."""
    group_field: str
    """The field that names its groups."""

    def fits(self, look: FirstLook) -> bool:
        """Whether a file looks like this form."""

    def first_of(self, directory: Path) -> Path | None:
        """Return the first file in a directory that could have this form."""

    def read(self, path: Path, options: ReadOptions) -> Iterator[Found]:
        """
        Yield the responses of all steps, step by step.

        Raises:
            ConfigError: The log is invalid; the message names file, line and field.
        """
