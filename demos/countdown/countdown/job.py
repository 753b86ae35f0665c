"""A run that can be demonstrated: which policy is served, and which program trains it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from countdown.deepening import served_checkpoint
from countdown.fresh import FreshScores
from countdown.settings import LAYERS, DemoSettings, RunSettings
from countdown.subject import Subject
from tlt_common.domain.fleet import Fleet


async def no_scores(directory: Path, fleet: Fleet) -> FreshScores | None:
    """Score nothing, for runs without fresh prompts."""
    del directory, fleet
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A run: its settings, and what belongs to its policy."""

    settings: RunSettings
    subject: Subject
    program: str
    """Module of the trainer. Called with the rollout endpoint, the coordinator, the directory of the run, the time by
    which its last step should be finished, and the settings as JSON; prints events (`countdown.events`)."""
    prompt_tokens: int
    """Tokens for a prompt in addition to the longest response; determines the size of the KV caches."""
    checkpoint: Callable[[Path], Awaitable[Path]]
    """Returns the directory of the checkpoint to serve; may write it to the directory of the run, which is given."""
    score: Callable[[Path, Fleet], Awaitable[FreshScores | None]] = no_scores
    """Scores drafters after the run, given its directory and the fleet at its end."""
    overtime_minutes: float = 0.5
    """Time that stopping the suite, scores and the report take."""


def demo(settings: DemoSettings) -> Job:
    """Return the run of the tiny reasoner."""
    return Job(
        settings=settings,
        subject=subject_of(settings.served_layers),
        program="countdown.trainer",
        prompt_tokens=64,
        checkpoint=partial(served_checkpoint, settings.served_layers),
    )


def subject_of(served_layers: int) -> Subject:
    """Return what the report says about a run of the tiny reasoner, served with so many layers."""
    if served_layers == LAYERS:
        return Subject(
            bench="tlt bench rollout --shallow --json -",
            served=f"Engines serve the policy's {LAYERS} layers, which the trainer trains.",
            ratio=f"Drafting costs one layer where a plain round costs {LAYERS}: the worst case for speculation.",
        )
    return Subject(
        served=(
            f"Engines serve {served_layers} layers: the policy's {LAYERS}, which the trainer trains, and "
            f"{served_layers - LAYERS} that add exactly nothing, so that a round costs what a larger model's costs."
        ),
        ratio=(
            f"Drafting costs one layer where a plain round costs {served_layers}, as it costs one of 28 to 64 with "
            f"policies of 7B to 32B. With {LAYERS} layers served, it saves less: `tlt bench rollout --shallow`."
        ),
    )
