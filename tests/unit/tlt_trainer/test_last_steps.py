"""A lease that ends has what it learned last published, too, if the last evaluation found a gain."""

import asyncio

import pytest

from tests.unit.tlt_trainer.tiny import TinyPolicy
from tests.unit.tlt_trainer.virtual_trainer import Bench, running, until
from tlt_common.domain.ids import DrafterVersion, Epoch
from tlt_trainer.config import PublishSettings
from tlt_trainer.drafter.score import Score
from tlt_trainer.sharing.drafter_sharing import DrafterSharing

pytestmark = pytest.mark.looptime


class Recorded(DrafterSharing):
    """Publishes what is offered at once, and notes at which step that was."""

    bench: Bench

    def __init__(self) -> None:
        self.steps = list[int]()

    @property
    def problem(self) -> str:
        return ""

    def offer(self, score: Score, base: Score | None) -> None:
        counters, version = self.bench.learner.counters, DrafterVersion(len(self.steps) + 1)
        self.steps.append(counters.steps)
        self.bench.learner.settle(version, self.bench.learner.weights(), counters)

    def catch_up(self, newest: DrafterVersion | None) -> None:
        pass


def bench_of(policy: TinyPolicy, gain: float) -> tuple[Bench, Recorded]:
    sharing = Recorded()
    publish = PublishSettings(first_gain=0.0, gain=gain, every_tokens=4000)
    sharing.bench = Bench(policy, sharing, publish)
    return sharing.bench, sharing


async def lease(bench: Bench, epoch: int, until_tokens: int) -> None:
    """Train under a lease until so many states were trained on in all."""
    await bench.start(epoch)
    await until(lambda: bench.learner.counters.tokens >= until_tokens)
    await bench.loop.preempt(Epoch(epoch))
    await asyncio.sleep(5)


async def test_what_was_learned_after_the_score_is_published_once(policy: TinyPolicy) -> None:
    bench, sharing = bench_of(policy, gain=100.0)
    bench.give_data()
    async with running(bench):
        await lease(bench, 1, 5000)  # scored after 2,000 and 4,000 states, published after 4,000
        assert len(sharing.steps) == 2
        assert sharing.steps[0] < sharing.steps[1] == bench.learner.counters.steps
        await lease(bench, 2, 5500)  # not scored: nothing says that it gained
        assert len(sharing.steps) == 2


async def test_nothing_is_published_if_the_last_score_was_no_gain(policy: TinyPolicy) -> None:
    bench, sharing = bench_of(policy, gain=100.0)
    bench.give_data()
    async with running(bench):
        await lease(bench, 1, 7500)  # scored after 6,000 states, against what was published after 4,000
        assert len(sharing.steps) == 1
