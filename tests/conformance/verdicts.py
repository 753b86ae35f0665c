"""What becomes of a request field of SGLang's: tried with values that have an effect there."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tests.conformance.compare import is_same
from tests.conformance.sides import Answer, Side, Sides

Call = Callable[[Side, Mapping[str, Any]], Answer]
Seen = Callable[[Any], Any]

ANYTHING: tuple[Any, ...] = (True, 7, 0.5, "x", ["x"], [7], {"x": 1})
"""Values for fields without a trial of their own: each must be refused."""


class Verdict(StrEnum):
    """What becomes of a field."""

    CONFORMANT = "conformant"
    """It has the effect that it has in SGLang."""
    REFUSED = "refused by name"
    UNNAMED = "refused without its name"
    IGNORED = "silently ignored"
    """It has an effect in SGLang, and none here."""
    DIFFERENT = "different"
    """It has another effect than in SGLang."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A value of a field, and where its effect is seen."""

    change: Mapping[str, Any]
    """What is added to `base`."""
    base: Mapping[str, Any] = field(default_factory=dict)
    seen: Seen = lambda content: content
    """Returns the part of an answer that must be that of SGLang, and differ from the answer to `base` alone."""
    unseen: str = ""
    """Why no answer shows the effect; empty if answers do."""


def verdict(sides: Sides, call: Call, name: str, trial: Trial) -> Verdict:
    """
    Try a field.

    Args:
        sides: The servers.
        call: Sends a body.
        name: The field's name in errors.
        trial: What is sent.
    """
    ours = call(sides.suite, {**trial.base, **trial.change})
    if ours.status != 200:
        return _refused(ours, name)
    theirs = call(sides.stock, {**trial.base, **trial.change})
    assert theirs.status == 200, f"SGLang refuses the trial of {name}: {theirs.content}"
    if not trial.unseen:
        alone = call(sides.stock, trial.base)
        assert not is_same(trial.seen(alone.content), trial.seen(theirs.content)), f"no effect of {name} in SGLang"
    if is_same(trial.seen(theirs.content), trial.seen(ours.content)):
        return Verdict.CONFORMANT
    without = call(sides.suite, trial.base)
    return Verdict.IGNORED if is_same(trial.seen(without.content), trial.seen(ours.content)) else Verdict.DIFFERENT


def verdict_of_anything(sides: Sides, call: Call, name: str, default: Any, place: Callable[[Any], Any]) -> Verdict:
    """
    Try a field without a trial: whatever its value, it must be refused.

    Args:
        sides: The servers.
        call: Sends a body.
        name: The field's name in errors.
        default: SGLang's value of the field; it asks for nothing.
        place: Returns the body with a value of the field.
    """
    for value in ANYTHING:
        if value == default:
            continue
        answer = call(sides.suite, place(value))
        if answer.status == 200:
            return Verdict.IGNORED
        if (found := _refused(answer, name)) is not Verdict.REFUSED:
            return found
    return Verdict.REFUSED


def _refused(answer: Answer, name: str) -> Verdict:
    return Verdict.REFUSED if (answer.refused_field or "").startswith(name) else Verdict.UNNAMED
