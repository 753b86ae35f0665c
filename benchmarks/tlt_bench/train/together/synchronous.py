"""Synchronous data parallel training: every optimizer step sums the gradients of all present members."""

import time
from collections.abc import Sequence

from tlt_bench.train.together.member import TrainingMember
from tlt_bench.train.together.way import Journey


def synchronous(members: Sequence[TrainingMember], journey: Journey) -> None:
    """One learner makes the steps of all, which is exact. A step lasts as long as that of the slowest member."""
    learner, now_s = members[0].learner, 0.0
    while journey.goes_on:
        longest_s = 0.0
        for member in members:
            if not member.is_present(journey.share):
                continue
            member.learner, before_s = learner, member.seconds
            journey.seen += member.micro_step(steps=False)  # a killed one loses nothing: all others have its weights
            longest_s = max(longest_s, member.seconds - before_s)
        began_s = time.thread_time()
        learner.step()
        now_s += longest_s + time.thread_time() - began_s
        journey.note(now_s, learner.averaged())
