"""Requests that are asked to leave their worker by a call whose answer is lost. Time is virtual."""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import cast

import pytest

from tests.fakes.chunks import chunk
from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_common.domain.prompt import Prompt, SamplingParams
from tlt_common.domain.response import FinishReason, TokenChunk
from tlt_common.errors import DrainingError, UnavailableError
from tlt_gateway.queue.admission import Admission
from tlt_gateway.queue.queue_capacity import QueueLimits
from tlt_gateway.requests.dispatch import Dispatch
from tlt_gateway.requests.requests import LEAVE_S, Requests
from tlt_gateway.workers.pooled_worker import PooledWorker
from tlt_gateway.workers.remote_worker import RemoteWorker
from tlt_gateway.workers.response_stream import ResponseStream
from tlt_gateway.workers.worker_pool import WorkerPool

pytestmark = pytest.mark.looptime

TOKEN_S = 1.0
LENGTH = 20


class Remote:
    """
    A worker that counts up, one token per second.

    Attributes:
        aborts: What becomes of calls to abort: whether they take effect, and how late, and whether they are answered.
    """

    def __init__(self) -> None:
        self.running: dict[RequestId, asyncio.Event] = {}
        self.asked = 0
        self.acts, self.late_s, self.answers = True, 0.0, True

    def generate(self, prompt: Prompt) -> ResponseStream:
        @contextmanager
        def running(stream: ResponseStream) -> Iterator[None]:
            task = asyncio.ensure_future(self._answer(prompt, stream))
            try:
                yield
            finally:
                task.cancel()

        return ResponseStream(running)

    async def abort(self, request_ids: Iterable[RequestId], *, owner: str) -> set[RequestId]:
        self.asked += 1
        if self.acts:
            for name in request_ids:
                if name in self.running:
                    asyncio.get_running_loop().call_later(self.late_s, self.running[name].set)
        if not self.answers:
            await asyncio.sleep(0.5)
            raise UnavailableError("the deadline passed")
        return set()

    async def _answer(self, prompt: Prompt, stream: ResponseStream) -> None:
        aborted = self.running[prompt.request_id] = asyncio.Event()
        try:
            for position in range(len(prompt.prefix_token_ids), LENGTH):
                await asyncio.sleep(TOKEN_S)
                if aborted.is_set():
                    stream.add(chunk(finish=FinishReason.ABORT))
                    return
                stream.add(chunk(position, finish=FinishReason.LENGTH if position == LENGTH - 1 else None))
        finally:
            del self.running[prompt.request_id]


class Fleet:
    """Two workers, of which `open` gets the next request."""

    def __init__(self) -> None:
        self.remotes = Remote(), Remote()
        self.workers = [
            PooledWorker(f"w{index}", cast("RemoteWorker", remote), gateway_id="g", queued=lambda: 0)
            for index, remote in enumerate(self.remotes)
        ]
        self.open = 0
        self.absent_since_s: float | None = None
        self.free = 100
        self.version = PolicyVersion(0)
        limits = QueueLimits(requests=10, tokens=10)
        self.admission: Admission[PooledWorker] = Admission(self, limits=limits, worker_wait_s=60, retry_after_s=1)
        self.requests = Requests(self.admission.withdraw)
        pool = cast("WorkerPool", self)
        self.dispatch = Dispatch(pool, self.admission, self.requests, worker_wait_s=60, max_moves=3)

    @property
    def offer(self) -> None:
        return None

    def may_ever_run(self, _prompt: Prompt) -> bool:
        return True

    def acquire(self, _prompt: Prompt) -> PooledWorker:
        return self.workers[self.open]

    def release(self, _worker: PooledWorker) -> None:
        pass

    async def answer(self, name: str = "r") -> list[TokenChunk]:
        prompt = Prompt(
            request_id=RequestId(name), token_ids=(5,), sampling=SamplingParams(max_new_tokens=LENGTH), owner="me"
        )
        return [chunk async for chunk in self.dispatch.stream(prompt)]


def whole(chunks: list[TokenChunk]) -> None:
    assert [token for chunk in chunks for token in chunk.token_ids] == list(range(LENGTH))
    assert chunks[-1].finish_reason is FinishReason.LENGTH


@pytest.mark.parametrize("late_s", [0.0, 30.0, 7.5])
@pytest.mark.parametrize("acts", [True, False])
async def test_no_response_ends_when_the_answer_of_a_move_is_lost(late_s: float, *, acts: bool) -> None:
    fleet = Fleet()
    first = fleet.remotes[0]
    first.acts, first.late_s, first.answers = acts, late_s, False
    answer = asyncio.ensure_future(fleet.answer())
    await asyncio.sleep(3.5)
    fleet.open = 1
    await fleet.requests.hand_over(fleet.workers[0])
    whole(await answer)


async def test_a_move_that_had_no_effect_is_asked_for_again() -> None:
    fleet = Fleet()
    fleet.remotes[0].acts = fleet.remotes[0].answers = False
    answer = asyncio.ensure_future(fleet.answer())
    await asyncio.sleep(3.5)
    fleet.open = 1
    await fleet.requests.hand_over(fleet.workers[0])
    fleet.remotes[0].acts = fleet.remotes[0].answers = True
    await fleet.requests.hand_over(fleet.workers[0])
    await asyncio.sleep(2)
    assert not fleet.remotes[0].running
    assert fleet.remotes[1].running
    whole(await answer)


async def test_a_client_that_aborts_a_request_on_its_way_gets_its_abort() -> None:
    fleet = Fleet()
    fleet.remotes[0].answers = False
    answer = asyncio.ensure_future(fleet.answer())
    await asyncio.sleep(3.5)
    await fleet.requests.hand_over(fleet.workers[0])
    assert fleet.requests.abort([RequestId("r")], owner="me") == {"r"}
    assert (await answer)[-1].finish_reason is FinishReason.ABORT


async def test_nobody_else_can_abort_it_by_its_id_or_replace_it_by_a_higher_attempt() -> None:
    fleet = Fleet()
    answer = asyncio.ensure_future(fleet.answer())
    await asyncio.sleep(3.5)
    assert fleet.requests.abort([RequestId("r")], owner="third") == set()
    assert fleet.requests.abort_all(owner="third") == set()
    other = Prompt(
        request_id=RequestId("r"),
        token_ids=(5,),
        sampling=SamplingParams(max_new_tokens=LENGTH),
        owner="other",
        attempt=1000,
    )
    theirs = [chunk async for chunk in fleet.dispatch.stream(other)]
    whole(theirs)
    whole(await answer)


async def test_a_pause_waits_until_its_requests_have_left_and_asks_again() -> None:
    fleet = Fleet()
    fleet.remotes[0].answers = fleet.remotes[0].acts = False
    answer = asyncio.ensure_future(fleet.answer())
    await asyncio.sleep(3.5)
    fleet.admission.hold()
    leaving = asyncio.ensure_future(fleet.requests.vacate())
    await asyncio.sleep(2)
    assert not leaving.done()
    fleet.remotes[0].acts = True  # its answers are still lost
    await leaving
    assert not fleet.remotes[0].running
    fleet.admission.proceed()
    whole(await answer)


async def test_a_pause_fails_if_a_worker_goes_on() -> None:
    fleet = Fleet()
    fleet.remotes[0].acts = fleet.remotes[0].answers = False
    answer = asyncio.ensure_future(fleet.answer())
    await asyncio.sleep(0.5)
    with pytest.raises(UnavailableError, match=f"still run on w0 after {LEAVE_S:g} s"):
        await fleet.requests.vacate()
    whole(await answer)


async def test_a_gateway_that_waits_no_longer_says_so_to_running_and_queued_requests() -> None:
    fleet = Fleet()
    running = asyncio.ensure_future(fleet.answer("running"))
    await asyncio.sleep(0.5)
    fleet.admission.hold()
    queued = asyncio.ensure_future(fleet.answer("queued"))
    await asyncio.sleep(0.5)
    fleet.requests.end_all()
    for answer in (running, queued):
        with pytest.raises(DrainingError, match="shutting down"):
            await answer
