"""
Scores two drafters on a policy's responses, prompt by prompt.

A separate program, so that the process of the run never loads torch:
`python -m word_problems.scoring POLICY RESPONSES TEMPERATURE FROZEN ADAPTED` prints the scores as JSON.
"""

import sys
from itertools import groupby
from pathlib import Path

import torch

from countdown.fresh import FreshScores, PromptScore
from tlt_common.recorded_rollouts import RecordedRollout, RolloutFile
from tlt_trainer.drafter.shared_weights import read_config
from tlt_trainer.offline.beginning import published
from tlt_trainer.offline.training import OfflineTraining

DRAFTS = 5
"""Drafts of a chain."""


def scores(policy: Path, responses: Path, *, temperature: float, frozen: str, adapted: str) -> FreshScores:
    """
    Score both drafters.

    Args:
        policy: Directory of the checkpoint that generated the responses.
        responses: File of rollouts; those of a prompt are next to each other.
        temperature: The one at which they were sampled.
        frozen: Path of the drafter that the run started with.
        adapted: Path of the newest one.

    Raises:
        ConfigError: A file cannot be read, or a drafter is one of another policy.
    """
    found = [_of_drafter(policy, responses, drafter, temperature) for drafter in (frozen, adapted)]
    return FreshScores(temperature=temperature, frozen=found[0], adapted=found[1])


def _of_drafter(policy: Path, responses: Path, drafter: str, temperature: float) -> tuple[PromptScore, ...]:
    _, begin = published(drafter, read_config(policy), "drafter")
    training = OfflineTraining(policy, begin, torch.device("cpu"), drafts=DRAFTS)
    rollouts = RolloutFile(path=responses, vocab_size=begin.form.vocab_size)
    return tuple(
        _scored(training, list(same), temperature) for _, same in groupby(rollouts, key=lambda rollout: rollout.prompt)
    )


def _scored(training: OfflineTraining, rollouts: list[RecordedRollout], temperature: float) -> PromptScore:
    tokens = sum(len(rollout.response) for rollout in rollouts)
    return PromptScore(tokens=tokens, accepted=training.score(rollouts, temperature=temperature).accepted)


def main() -> None:
    """Print the scores."""
    policy, responses, temperature, frozen, adapted = sys.argv[1:]
    found = scores(Path(policy), Path(responses), temperature=float(temperature), frozen=frozen, adapted=adapted)
    print(found.model_dump_json())


if __name__ == "__main__":
    main()
