"""Selects and orders the collected responses for training, and holds some out for scoring. Pure."""

import random
from collections.abc import Sequence

from tlt_common.domain.hidden import prompt_hash
from tlt_common.drafter.token_counts import TokenCounts
from tlt_common.errors import ConfigError
from tlt_common.recorded_rollouts import RecordedRollout
from tlt_trainer.data.held_out import HeldOutPrompts

Numbered = tuple[int, RecordedRollout]
"""A response and its number, by which its states are found again."""


def order_of(rollouts: Sequence[RecordedRollout], seed: int, epoch: int) -> list[Numbered]:
    """Return the responses in the order of a pass over the data."""
    numbered = list(enumerate(rollouts))
    return random.Random(f"{seed}/{epoch}").sample(numbered, len(numbered))


def first_with(rollouts: Sequence[RecordedRollout], limit: int) -> list[RecordedRollout]:
    """Return the first responses with this many states in total, at least one."""
    found, states = list[RecordedRollout](), 0
    for rollout in rollouts:
        if states >= limit:
            break
        found.append(rollout)
        states += len(rollout.token_ids) - 1
    return found


def states_in(rollouts: Sequence[RecordedRollout]) -> int:
    """Return the number of states of these responses."""
    return sum(len(rollout.token_ids) - 1 for rollout in rollouts)


def counted(rollouts: Sequence[RecordedRollout], vocab_size: int) -> TokenCounts:
    """Return how often the responses use each token."""
    counts = TokenCounts(vocab_size)
    for rollout in rollouts:
        counts.add(rollout.response)
    return counts


def split(rollouts: Sequence[RecordedRollout]) -> tuple[list[RecordedRollout], list[RecordedRollout]]:
    """
    Return the rollouts for training and for scoring, split by prompt as in spot trainers.

    Raises:
        ConfigError: There are fewer than two different prompts.
    """
    prompts = HeldOutPrompts()
    hashes = [prompt_hash(rollout.prompt) for rollout in rollouts]
    for one in hashes:
        prompts.see(one)
    training = [rollout for rollout, one in zip(rollouts, hashes, strict=True) if not prompts.holds_out(one)]
    held_out = [rollout for rollout, one in zip(rollouts, hashes, strict=True) if prompts.holds_out(one)]
    if not training:
        raise ConfigError(
            "--data has no prompts besides those held out for scoring; add more different prompts",
            field="data",
        )
    return training, held_out
