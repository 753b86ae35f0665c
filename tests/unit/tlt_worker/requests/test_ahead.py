"""Responses generated ahead: under a lease only, never in the way of anything."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.fakes.engine import FakeEngine
from tlt_common.domain.fleet import WorkerState
from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_common.domain.prompt import Prompt
from tlt_worker.activity import Activity, Tenancy
from tlt_worker.requests import ahead
from tlt_worker.requests.ahead import Ahead

pytestmark = pytest.mark.looptime


class Bench:
    """A worker's parts around a scripted engine of three places that takes 8 s per response."""

    def __init__(self, token_s: float = 0.03, tokens: int = 267) -> None:
        self.answered = list[tuple[int, ...]]()
        self._tokens = tokens
        self.engine = FakeEngine(answer=self._answer, token_s=token_s)
        self.activity = Activity()
        self.version = PolicyVersion(1)
        self.ahead = Ahead(self.engine, self.activity, places=3, policy_version=lambda: self.version)

    def _answer(self, prompt: Prompt) -> tuple[int, ...]:
        self.answered.append(prompt.token_ids)
        return tuple(range(self._tokens))

    def announce(self, *ids: int, owner: str = "") -> None:
        self.ahead.announce(owner, [Prompt(request_id=RequestId("r"), token_ids=(each,)) for each in ids])


@asynccontextmanager
async def running(bench: Bench | None = None) -> AsyncIterator[Bench]:
    bench = bench or Bench()
    await bench.engine.start()
    task = asyncio.create_task(bench.ahead.run())
    try:
        yield bench
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.wait([task])
    assert bench.engine.running == frozenset()


async def test_prompts_are_answered_once_while_the_device_is_lent() -> None:
    async with running() as bench:
        bench.announce(1, 2, 3)
        await asyncio.sleep(60)
        assert bench.answered == []  # idle is not enough: nobody would account for it
        bench.activity.set_tenancy(Tenancy.ENTERING)
        await asyncio.sleep(60)
        assert bench.answered == []
        bench.activity.set_tenancy(Tenancy.TRAINING)
        await asyncio.sleep(1)
        assert len(bench.engine.running) == 2
        assert bench.activity.state is WorkerState.TRAINING
        await asyncio.sleep(60)
        assert sorted(bench.answered) == [(1,), (2,), (3,)]
        assert bench.ahead.waiting == 0


@pytest.mark.parametrize("event", ["request", "weights", "lease"])
async def test_whatever_needs_the_device_ends_them_at_once(event: str) -> None:
    async with running() as bench:
        bench.announce(1, 2, 3)
        bench.activity.set_tenancy(Tenancy.TRAINING)
        await asyncio.sleep(3.5)
        if event == "request":
            with bench.activity.request():
                await asyncio.sleep(0.01)
                assert bench.engine.running == frozenset()
        elif event == "weights":
            with bench.activity.update():
                await asyncio.sleep(0.01)
                assert bench.engine.running == frozenset()
        else:
            bench.activity.set_tenancy(Tenancy.LEAVING)
            await asyncio.sleep(0.01)
            assert bench.engine.running == frozenset()
        bench.activity.set_tenancy(Tenancy.NONE)
        await asyncio.sleep(60)
        assert bench.ahead.waiting == 3
        bench.activity.set_tenancy(Tenancy.TRAINING)
        await asyncio.sleep(60)
        assert bench.ahead.waiting == 0


async def test_facts_that_change_while_responses_end_end_nothing_else() -> None:
    async with running() as bench:
        bench.announce(1, 2)
        bench.activity.set_tenancy(Tenancy.TRAINING)
        await asyncio.sleep(1)
        bench.activity.set_tenancy(Tenancy.LEAVING)
        for _ in range(5):  # rounds of the event loop
            bench.activity.set_tenancy(Tenancy.NONE)
            await asyncio.sleep(0)
            bench.activity.set_tenancy(Tenancy.LEAVING)
        bench.activity.set_tenancy(Tenancy.TRAINING)
        await asyncio.sleep(60)
        assert bench.ahead.waiting == 0


async def test_an_announcement_replaces_the_owners_last_one_and_no_others() -> None:
    async with running() as bench:
        bench.announce(1, 2, owner="a")
        bench.announce(3, owner="b")
        bench.announce(4, owner="a")
        bench.activity.set_tenancy(Tenancy.TRAINING)
        await asyncio.sleep(60)
        assert sorted(bench.answered) == [(3,), (4,)]
        bench.announce(owner="a")
        assert bench.ahead.waiting == 0


async def test_new_weights_end_what_was_announced_before_them() -> None:
    async with running() as bench:
        bench.announce(1, 2, 3)
        bench.version = PolicyVersion(2)
        bench.activity.set_tenancy(Tenancy.TRAINING)
        await asyncio.sleep(60)
        assert bench.answered == []
        bench.announce(4)
        await asyncio.sleep(60)
        assert bench.answered == [(4,)]


async def test_an_engine_that_dies_ends_nothing_but_its_responses() -> None:
    async with running() as bench:
        bench.announce(1, 2)
        bench.activity.set_tenancy(Tenancy.TRAINING)
        await asyncio.sleep(1)
        bench.engine.die("gone")
        await asyncio.sleep(60)


async def test_a_request_never_waits_for_a_long_round_or_for_a_place() -> None:
    async with running(Bench(token_s=1.0, tokens=8)) as bench:
        bench.announce(1, 2, 3)
        bench.activity.set_tenancy(Tenancy.TRAINING)
        await asyncio.sleep(4)
        assert len(bench.engine.running) == 1
        await asyncio.sleep(60)
        assert bench.ahead.waiting == 0
    async with running(Bench(token_s=0.001, tokens=2000)) as bench:
        bench.announce(*range(9))
        bench.activity.set_tenancy(Tenancy.TRAINING)
        await asyncio.sleep(0.5)
        assert len(bench.engine.running) == 2  # of three places


async def test_what_its_owner_replaced_does_not_begin_again() -> None:
    async with running() as bench:
        bench.announce(1)
        bench.activity.set_tenancy(Tenancy.TRAINING)
        await asyncio.sleep(1)
        bench.announce(2)
        bench.activity.set_tenancy(Tenancy.NONE)
        await asyncio.sleep(1)
        assert bench.ahead.waiting == 1


async def test_each_prompt_is_answered_as_often_as_it_was_announced_the_owners_in_turn() -> None:
    async with running(Bench(tokens=10)) as bench:
        for owner, ids in (("a", (1, 2)), ("b", (3,))):
            prompts = [Prompt(request_id=RequestId("r"), token_ids=(each,)) for each in ids]
            bench.ahead.announce(owner, prompts, 3)
        assert bench.ahead.waiting == 9
        bench.activity.set_tenancy(Tenancy.TRAINING)
        await asyncio.sleep(60)
        assert bench.ahead.waiting == 0
        assert [tokens[0] for tokens in bench.answered] == [1, 3, 1, 3, 1, 3, 2, 2, 2]


async def test_of_a_long_announcement_the_first_prompts_are_kept_and_of_many_the_latest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ahead, "OWNER_TOKENS", 5)
    monkeypatch.setattr(ahead, "MAX_TOKENS", 8)
    bench = Bench()
    own = [Prompt(request_id=RequestId("r"), token_ids=(9,) * 20)]
    bench.ahead.announce("own", own, limited=False)
    two = Prompt(request_id=RequestId("r"), token_ids=(1, 2))
    bench.ahead.announce("a", [two] * 3, 1000)
    assert bench.ahead.waiting == 1 + 2 * 1000
    bench.ahead.announce("b", [two] * 2, 10)
    assert bench.ahead.waiting == 1 + 2000 + 20
    bench.ahead.announce("c", [two], 1)
    assert bench.ahead.waiting == 1 + 20 + 1, (
        "what was announced first is forgotten, but not what the worker does itself"
    )
    bench.ahead.announce("b", [])
    assert bench.ahead.waiting == 1 + 1
