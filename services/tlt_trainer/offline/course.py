"""
Progress of offline training: position, learner and curve. It is stored on disk, so that interrupted training continues.

Written atomically at most once a minute. After an interruption, training since the last write is repeated.
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from tlt_common.documents import json_of
from tlt_common.errors import ConfigError, WeightsError
from tlt_common.whole_file import write_whole
from tlt_trainer.drafter.score import Score
from tlt_trainer.learned import Snapshot
from tlt_trainer.store.checkpoint_files import from_files, to_files

COURSE_FILE: Final = "course.json"
SLOTS: Final = ("even", "odd")
"""Directories of checkpoints, written in turns: an interrupted write leaves the other."""


@dataclass(slots=True, kw_only=True)
class TrainingCourse:
    """Position of the training."""

    asked: dict[str, Any]
    """Policy, data and options with which it was begun."""
    epoch: int = 0
    """Completed passes over the data."""
    part: int = 0
    """Completed parts of the current pass."""
    seconds: float = 0.0
    """Seconds spent on states and steps, without scoring."""
    curve: list[list[float]] = field(default_factory=list)
    """Points of [states trained on, seconds, accept length]."""
    places: dict[str, list[int]] = field(default_factory=dict)
    """Location of the stored states: first one and number, by response."""
    saves: int = 0
    """Number of times it was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Progress after a part of a pass over the data."""

    epoch: int
    """The current pass, from 1."""
    tokens: int
    """States trained on so far."""
    total_tokens: int
    """States to train on, in all passes."""
    seconds: float
    """Seconds spent on states and steps so far, in all runs."""
    left_s: float
    """Estimated seconds left, at the speed of this run."""
    loss: float
    """Mean loss over the part, per scored entry of a micro-step."""
    score: Score | None
    """Score on held-out prompts; None if not scored this time."""


def begun(directory: Path, asked: dict[str, Any]) -> tuple[TrainingCourse, Snapshot | None]:
    """
    Return the training to continue and its learner, or a new one without a learner.

    Raises:
        ConfigError: The existing training was begun with other arguments, or is damaged.
    """
    file = directory / COURSE_FILE
    if not file.exists():
        return TrainingCourse(asked=asked), None
    try:
        course = TrainingCourse(**json_of(file.read_bytes()))
        slot = directory / SLOTS[course.saves % 2]
        snapshot = from_files({path.name: path.read_bytes() for path in slot.iterdir()})
    except (OSError, ValueError, TypeError, KeyError, WeightsError) as error:
        raise ConfigError(f"--work: {directory} cannot be continued: {error}; remove it", field="work") from error
    if different := [name for name, value in asked.items() if course.asked.get(name) != value]:
        raise ConfigError(
            f"--work: {directory} was begun with another {different[0]}; continue with the same, or remove it",
            field="work",
        )
    return course, snapshot


def save(directory: Path, course: TrainingCourse, snapshot: Snapshot) -> None:
    """
    Write the progress.

    Raises:
        OSError: The files cannot be written.
    """
    course.saves += 1
    slot = directory / SLOTS[course.saves % 2]
    slot.mkdir(exist_ok=True)
    for name, content in to_files(snapshot).items():
        write_whole(slot / name, content)
    write_whole(directory / COURSE_FILE, json.dumps(asdict(course)).encode())
