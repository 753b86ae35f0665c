"""The responses of an RL run: their lengths, groups and times, without texts. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSample:
    """A response."""

    prompt: int
    """Equal for the samples of a group, and for later epochs of its prompt."""
    prompt_tokens: int
    tokens: int
    """At least 1."""
    ends: bool = True
    """Whether it ends by itself; false if a cap cut it."""
    after_s: float = 0.0
    """Time of its request, in seconds after the start of its step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceStep:
    """The responses between two updates of the weights. Seconds are measured ones; None if unknown."""

    samples: tuple[TraceSample, ...]
    rollout_s: float | None = None
    """Time from the first request to the last response, without the suite."""
    suite_rollout_s: float | None = None
    """The same with it."""
    step_s: float | None = None
    """Time from the first request to the first request of the next step: without the suite if `rollout_s` is known."""

    @property
    def learning_s(self) -> float | None:
        """Time from the last response to the next step."""
        rollout_s = self.suite_rollout_s if self.rollout_s is None else self.rollout_s
        return None if self.step_s is None or rollout_s is None else self.step_s - rollout_s

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle samples by column, since millions may be sent to other processes."""
        columns = tuple(list(map(attrgetter(name), self.samples)) for name in _NAMES)
        return _step_of, (columns, self.rollout_s, self.suite_rollout_s, self.step_s)


_NAMES = tuple(field.name for field in fields(TraceSample))


def _step_of(columns: Sequence[Sequence[Any]], *seconds: float | None) -> TraceStep:
    samples = (TraceSample(**dict(zip(_NAMES, values, strict=True))) for values in zip(*columns, strict=True))
    rollout_s, suite_rollout_s, step_s = seconds
    return TraceStep(samples=tuple(samples), rollout_s=rollout_s, suite_rollout_s=suite_rollout_s, step_s=step_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTrace:
    """A run."""

    source: str
    """Source of the trace, for reports."""
    steps: tuple[TraceStep, ...]
    cap: int
    """Maximum tokens of a response."""
    notes: tuple[str, ...] = ()
    """Assumptions and gaps of its reader."""

    @property
    def responses(self) -> int:
        """Number of responses."""
        return sum(len(step.samples) for step in self.steps)

    @property
    def longest_context(self) -> int:
        """Maximum tokens of a prompt and its response together."""
        return self.cap + max((sample.prompt_tokens for step in self.steps for sample in step.samples), default=0)

    @property
    def learning_s(self) -> tuple[float, ...]:
        """Times between the last response of a step and the next step, as far as they are known."""
        return tuple(step.learning_s for step in self.steps if step.learning_s is not None)
