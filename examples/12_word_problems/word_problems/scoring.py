"""
Scores two drafters on a policy's responses, prompt by prompt.

A separate program, so that the process of the run never loads torch:
`python -m word_problems.scoring POLICY RESPONSES FROZEN ADAPTED` prints the scores as JSON.
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
TEMPERATURE = 1.0
"""The one at which `OfflineTraining` scores."""


def scores(policy: Path, responses: Path, *, frozen: str, adapted: str) -> FreshScores:
    """
    Score both drafters.

    Args:
        policy: Directory of the checkpoint that generated the responses.
        responses: File of rollouts; those of a prompt are next to each other.
        frozen: Path of the drafter that the run started with.
        adapted: Path of the newest one.

    Raises:
        ConfigError: A file cannot be read, or a drafter is one of another policy.
    """
    found = [_of_drafter(policy, responses, drafter) for drafter in (frozen, adapted)]
    return FreshScores(temperature=TEMPERATURE, frozen=found[0], adapted=found[1])


def _of_drafter(policy: Path, responses: Path, drafter: str) -> tuple[PromptScore, ...]:
    _, begin = published(drafter, read_config(policy), "drafter")
    training = OfflineTraining(policy, begin, torch.device("cpu"), drafts=DRAFTS)
    rollouts = RolloutFile(path=responses, vocab_size=begin.form.vocab_size)
    return tuple(_scored(training, list(same)) for _, same in groupby(rollouts, key=lambda rollout: rollout.prompt))


def _scored(training: OfflineTraining, rollouts: list[RecordedRollout]) -> PromptScore:
    tokens = sum(len(rollout.response) for rollout in rollouts)
    return PromptScore(tokens=tokens, accepted=training.score(rollouts).accepted)


def main() -> None:
    """Print the scores."""
    policy, responses, frozen, adapted = sys.argv[1:]
    print(scores(Path(policy), Path(responses), frozen=frozen, adapted=adapted).model_dump_json())


if __name__ == "__main__":
    main()
