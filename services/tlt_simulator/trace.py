"""The responses of an RL run: their lengths, groups and times, and nothing of their texts. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSample:
    """A response."""

    prompt: int
    """The same for the samples of a group, and for later epochs of its prompt."""
    prompt_tokens: int
    tokens: int
    """At least 1."""
    ends: bool = True
    """Whether it ends by itself; otherwise a cap cut it."""
    after_s: float = 0.0
    """Seconds after the beginning of its step at which it is requested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceStep:
    """The responses between two updates of the weights. Seconds are those measured; None: not known."""

    samples: tuple[TraceSample, ...]
    rollout_s: float | None = None
    """From the first request to the last response."""
    step_s: float | None = None
    """From the first request to that of the next step."""

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle samples by column: there may be millions, which are sent to other processes."""
        columns = tuple(list(map(attrgetter(name), self.samples)) for name in _NAMES)
        return _step_of, (columns, self.rollout_s, self.step_s)


_NAMES = tuple(field.name for field in fields(TraceSample))


def _step_of(columns: Sequence[Sequence[Any]], rollout_s: float | None, step_s: float | None) -> TraceStep:
    samples = (TraceSample(**dict(zip(_NAMES, values, strict=True))) for values in zip(*columns, strict=True))
    return TraceStep(samples=tuple(samples), rollout_s=rollout_s, step_s=step_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTrace:
    """A run."""

    source: str
    """What it was read from, for reports."""
    steps: tuple[TraceStep, ...]
    cap: int
    """Tokens of a response at most."""
    notes: tuple[str, ...] = ()
    """What its reader assumed or could not know."""

    @property
    def responses(self) -> int:
        """Number of responses."""
        return sum(len(step.samples) for step in self.steps)
