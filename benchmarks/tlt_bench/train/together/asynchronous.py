"""Whoever has trained for a while merges with the newest drafter and publishes, as spot trainers do."""

import time
from collections.abc import Sequence

from tlt_bench.train.together.member import TrainingMember
from tlt_bench.train.together.way import EVERY_TOKENS, Journey
from tlt_common.domain.ids import DrafterVersion
from tlt_trainer.drafter.merge import merge_of
from tlt_trainer.learned import Published


class Asynchronous:
    """
    The product's way, without its choice between merge, own and newest weights by their scores.

    Args:
        mean: Take the token-weighted mean instead of adding own progress.
    """

    def __init__(self, *, mean: bool = False) -> None:
        self._mean = mean

    def __call__(self, members: Sequence[TrainingMember], journey: Journey) -> None:
        newest: Published | None = None
        now_s = 0.0
        while journey.goes_on:
            for member in members:
                if not member.is_present(journey.share):
                    member.seconds = max(member.seconds, now_s)  # time passes for those who are away, too
            member = min((m for m in members if m.is_present(journey.share)), key=lambda m: m.seconds)
            journey.seen += member.train(EVERY_TOKENS)
            now_s = max(now_s, member.seconds)
            if member.dies(journey.share):
                if newest is not None:
                    member.learner.follow(newest, newest.weights)
                continue
            began_s = time.thread_time()
            newest = self._shared(member, newest)
            member.spend(time.thread_time() - began_s)
            journey.note(now_s, newest.weights)

    def _shared(self, member: TrainingMember, newest: Published | None) -> Published:
        """Merge with the newest drafter, and publish."""
        learner = member.learner
        if newest is not None and newest.version > learner.counters.base_version:
            own, share = learner.averaged(), learner.share_beside(newest)
            base = {} if self._mean else learner.start_with(newest)
            merged = {name: merge_of(own[name], newest.weights[name], base.get(name), share) for name in own}
            learner.follow(newest, merged, has_own=True)
        trained, weights = learner.counters, learner.weights()
        version = DrafterVersion(trained.base_version + 1)
        learner.settle(version, weights, trained)
        return Published(version=version, weights=weights, steps=trained.steps, tokens=trained.tokens)
