"""What a reader of a form is, and what it finds. Pure."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

Identity: TypeAlias = int | str | bytes | tuple[int | str | bytes, ...]
"""What names a prompt or a group. Texts are hashed by who keeps it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundResponse:
    """A response, as a reader finds it."""

    place: str
    """FILE:LINE, or how else it is found."""
    step: int
    prompt: Identity | None
    """The same in later epochs; None: the log does not say."""
    group: Identity | None = None
    """Of its step; None: as `prompt`."""
    prompt_tokens: int
    tokens: int
    ends: bool | None
    """Whether it ends by itself; None: the log does not say."""
    is_counted: bool = False
    """Whether `tokens` was counted in a text, and may differ by a few tokens."""
    after_s: float = 0.0
    """Seconds from the beginning of its step to its request."""
    seconds: float | None = None
    """From its request to its last token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundStep:
    """What is known of the step whose responses were found last."""

    place: str
    step: int
    rollout_s: float | None = None
    step_s: float | None = None
    began_s: float | None = None
    """On any clock."""
    cap: int | None = None
    """Tokens of its responses at most."""


Found: TypeAlias = FoundResponse | FoundStep


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """How a log is to be read."""

    group: int | None
    """Responses to each prompt, in logs that do not say, or to check; None: any number."""
    cap: int | None
    count: Callable[[list[str]], list[int]] | None
    """Counts the tokens of texts; None: no tokenizer was named."""
    note: Callable[[str], None]
    """Is told what was assumed."""


@dataclass(frozen=True, slots=True)
class FirstLook:
    """What forms are told apart by."""

    path: Path
    first: Mapping[str, Any]
    """First object of a file of JSON lines; empty for other files."""


class TraceForm(Protocol):
    """A form of logs."""

    name: str
    about: str
    """What it is, in a line."""
    tokens_field: str
    """What its lengths are called, for errors."""
    group_field: str
    """What names its groups."""

    def fits(self, look: FirstLook) -> bool:
        """Whether a file looks like one of this form."""

    def first_of(self, directory: Path) -> Path | None:
        """Return the first file of a directory that could be of this form."""

    def read(self, path: Path, options: ReadOptions) -> Iterator[Found]:
        """
        Yield the responses of all steps, one step after the other.

        Raises:
            ConfigError: Something is not accepted; names file, line and field.
        """
