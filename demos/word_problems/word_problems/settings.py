"""Settings of a run of SmolLM2 on word problems."""

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from countdown.settings import EAGER, RunSettings
from tlt_common.errors import ConfigError

DRAFTER: Final = Path(__file__).parents[1] / "drafter"
"""The shipped drafter for SmolLM2."""
NO_DRAFTER: Final = "none"
POLICY, RESPONSES = "policy", "fresh.jsonl"
"""Within the directory of the run: the last published policy, and its responses to fresh prompts."""
ADAPTING: Final = {**EAGER, "publish.gain": "0", "nice": "10"}
"""Score and publish often, as the demo does; the shipped drafter is followed by the next one unless it is worse on
held-out prompts. Spot trainers get a tenth of the processors beside the external trainer: a drafter that begins trained
has little to learn from a few prompts, and the step waits for the external trainer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RealSettings(RunSettings):
    """Settings of a run of SmolLM2."""

    max_steps: int = 24
    minutes: float = 26.0
    """The fresh prompts and their scores take three minutes more."""
    prompts: int = 12
    samples: int = 4
    cap_tokens: int = 1024
    """A response that is still being written then goes round in circles, as some do."""
    temperature: float = 0.6
    """At 1, the policy of 135 million parameters is flat: its most likely token has a probability of 0.41 on average,
    and 3 nats of entropy remain. At 0.6 it is as sharp as models that reason, 0.78 and 0.74 nats."""
    learning_rate: float = 1e-5
    warmup_steps: int = 0
    trained_layers: int = 4
    """The upper layers are trained, the others, embedding and head are frozen: no gradient passes through those below,
    so that a step of two cores learns in the time that it has."""
    fresh_prompts: int = 16
    """Prompts after the last step, with one response each, whose states are not captured: on them, the drafter that the
    run started with is compared with the newest one."""
    drafter: str = str(DRAFTER)
    trainer: dict[str, str] = field(default_factory=lambda: dict(ADAPTING))
    learner_threads: int = field(default_factory=lambda: len(os.sched_getaffinity(0)))


def chosen(*, drafter: str | None = None, minutes: float | None = None, sampled: bool = False) -> RealSettings:
    """
    Return the settings of a run.

    Args:
        drafter: Directory of the drafter to start with, or `NO_DRAFTER`; None: the shipped one.
        minutes: Length of the training, start-up included; None: by default.
        sampled: Whether to sample without seeds, in bfloat16.

    Raises:
        ConfigError: There is no drafter at that path.
    """
    settings = RealSettings(paired=not sampled)
    if minutes is not None:
        settings = replace(settings, minutes=minutes)
    if drafter == NO_DRAFTER:
        return replace(settings, drafter="")
    if drafter is not None:
        settings = replace(settings, drafter=drafter)
    if not (Path(settings.drafter) / "config.json").is_file():
        raise ConfigError(
            f"--drafter: {settings.drafter} has no drafter; accepted: the directory of one, or {NO_DRAFTER}",
            field="drafter",
        )
    return settings
