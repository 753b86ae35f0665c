"""
Local training with an outer optimizer: Nesterov momentum on the mean of what the members learned (DiLoCo,
arXiv:2311.08105). All members wait for the slowest at the end of a round.
"""

from collections.abc import Sequence

import torch

from tlt_bench.train.together.member import TrainingMember
from tlt_bench.train.together.way import EVERY_TOKENS, Journey
from tlt_common.domain.ids import DrafterVersion
from tlt_trainer.learned import Published

OUTER_RATE = 0.7
OUTER_MOMENTUM = 0.9
"""The paper's."""


def outer(members: Sequence[TrainingMember], journey: Journey) -> None:
    """Let all present members train from the same weights, and make an outer step, until all is seen."""
    weights = members[0].learner.weights()
    velocity = {name: torch.zeros_like(tensor) for name, tensor in weights.items()}
    now_s, version, steps = 0.0, 0, 0
    while journey.goes_on:
        longest_s, learned = 0.0, []
        for member in [member for member in members if member.is_present(journey.share)]:
            before_s, before = member.seconds, member.learner.counters.steps
            journey.seen += member.train(EVERY_TOKENS)
            longest_s = max(longest_s, member.seconds - before_s)
            if not member.dies(journey.share):
                learned.append(member.learner.weights())
                steps += member.learner.counters.steps - before
        now_s += longest_s
        for name, tensor in weights.items():
            progress = torch.stack([found[name] for found in learned]).mean(0) - tensor
            velocity[name] = OUTER_MOMENTUM * velocity[name] + progress
            weights[name] = tensor + OUTER_RATE * (progress + OUTER_MOMENTUM * velocity[name])
        version += 1
        newest = Published(version=DrafterVersion(version), weights=dict(weights), steps=steps, tokens=journey.seen)
        for member in members:
            member.learner.follow(newest, newest.weights)
        journey.note(now_s, weights)
