"""What a gateway tells of its requests: numbers of tokens, each length once, and the tail only when there is one."""

import asyncio
from contextlib import ExitStack
from types import SimpleNamespace
from typing import cast

import pytest

from tests.unit.tlt_gateway.consolidation.views import PACE
from tlt_common.domain.arm import ArmWindow
from tlt_common.domain.arm.rounds import WorkedRounds
from tlt_common.domain.fleet import WorkerInfo
from tlt_common.domain.ids import DrafterVersion, PolicyVersion, RequestId, WorkerId
from tlt_common.domain.prompt import Prompt, SamplingParams
from tlt_common.domain.response import FinishReason, TokenChunk
from tlt_common.domain.transcript import Transcript
from tlt_common.forecast import LEVELS, Left, TailRequest
from tlt_common.forecast.load import GatewayLoad
from tlt_gateway.queue.room import Room
from tlt_gateway.requests import forecast
from tlt_gateway.requests.forecast import RequestForecast
from tlt_gateway.requests.requests import Requests
from tlt_gateway.requests.running_request import RunningRequest
from tlt_gateway.workers.pooled_worker import PooledState, PooledWorker
from tlt_gateway.workers.remote_worker import RemoteWorker
from tlt_gateway.workers.response_stream import ResponseStream

CAP = 512
ROUNDS = WorkedRounds(
    serial=1,
    arms=tuple(
        ArmWindow(
            arm="off",
            group=group,
            rounds=100,
            accepted_tokens=0,
            produced_tokens=100 * group,
            elapsed_s=100 * PACE.token_s(group, 0),
            median_reward=1.0,
        )
        for group in (1, 2, 4)
    ),
    prefilled_tokens=10_000,
    prefill_s=0.1,
)


def worker(*, kv_room: int = 10_000) -> PooledWorker:
    one = PooledWorker("w:1", cast("RemoteWorker", SimpleNamespace(received=0)), gateway_id="g", queued=int)
    one.info = WorkerInfo(
        worker_id=WorkerId("w"),
        model="m",
        vocab_size=100,
        context_length=1000,
        max_running=8,
        policy_version=PolicyVersion(0),
        drafter_version=DrafterVersion(0),
        running=0,
        device="d",
        kv_room=kv_room,
        lendable=True,
    )
    one.state, one.rounds = PooledState.READY, ROUNDS
    return one


class Scene:
    """A gateway with one worker, whose requests are made by hand."""

    def __init__(self, *, kv_room: int = 10_000) -> None:
        self.worker = worker(kv_room=kv_room)
        self.entered = ExitStack()
        self.requests = Requests(lambda _: None, self.over)
        self.forecast = RequestForecast("g", lambda: self.requests, lambda: (self.worker,), at_most=4)
        self.forecast.learn()

    def over(self, request: RunningRequest) -> None:
        self.forecast.over(request)

    def request(self, name: str, generated: int) -> RunningRequest:
        prompt = Prompt(
            request_id=RequestId(name), token_ids=(1, 2, 3), sampling=SamplingParams(max_new_tokens=CAP), owner="me"
        )
        made = RunningRequest(transcript=Transcript(prompt), room=Room())
        made.transcript.add(chunk(generated, None))
        return made

    def runs(self, name: str, generated: int) -> RunningRequest:
        """Let a request run for good."""
        made = self.request(name, generated)
        self.entered.enter_context(self.requests.entered(made))
        stream = cast("ResponseStream", SimpleNamespace(is_complete=False))
        made.begin(self.worker, RequestId(f"{name}~1"), stream, now_s=0.0)
        return made

    def ran(self, name: str, generated: int, reason: FinishReason) -> None:
        """Let a request run to its end."""
        made = self.request(name, generated)
        with self.requests.entered(made):
            made.transcript.end(reason)

    async def load(self) -> GatewayLoad:
        return await self.forecast.load()


def chunk(tokens: int, reason: FinishReason | None) -> TokenChunk:
    return TokenChunk(
        request_id=RequestId("r"),
        token_ids=(1,) * tokens,
        logprobs=(0.0,) * tokens,
        policy_versions=(PolicyVersion(0),) * tokens,
        finish_reason=reason,
    )


async def test_what_runs_is_counted_by_worker_cap_and_bits() -> None:
    scene = Scene()
    for name, generated in (("a", 0), ("b", 5), ("c", 6), ("d", 300)):
        scene.runs(name, generated)
    [told] = (await scene.load()).workers
    assert (told.worker_id, told.count, told.kv_tokens) == ("w", 4, 4 * 3 + 311)
    [of] = told.running
    assert of.cap == CAP
    assert {bits: count for bits, count in enumerate(of.counts) if count} == {0: 1, 3: 2, 9: 1}


async def test_each_length_is_told_once_and_only_what_ended_by_itself_counts_as_ended() -> None:
    scene = Scene()
    scene.ran("a", 40, FinishReason.STOP)
    scene.ran("b", CAP, FinishReason.LENGTH)
    scene.ran("c", 7, FinishReason.ABORT)
    scene.ran("d", 0, FinishReason.ABORT)  # never ran
    first, second = await scene.load(), await scene.load()
    assert (first.ended, first.cut) == ((40,), (CAP, 7))
    assert (second.ended, second.cut) == ((), ())


async def test_a_move_is_told_once_with_its_age() -> None:
    scene = Scene()
    left = Left(tuple(map(float, range(len(LEVELS)))))
    request = TailRequest(gateway_id="g", ref=1, worker_id=WorkerId("w"), kv_tokens=40, left=left)
    scene.forecast.moved(request, WorkerId("v"))
    await asyncio.sleep(0.2)
    [told] = (await scene.load()).moved
    assert (told.from_id, told.to_id, told.kv_tokens) == ("w", "v", 40)
    assert told.age_s >= 0.19
    assert (await scene.load()).moved == ()


async def test_the_tail_is_told_once_few_run_and_lengths_and_paces_are_known() -> None:
    scene = Scene()
    running = scene.runs("a", 20)
    assert (await scene.load()).tail is None, "no lengths are known"
    scene = Scene()
    for number in range(40):
        scene.ran(f"r{number}", 10 + 5 * number, FinishReason.STOP)
    running = scene.runs("a", 20)
    told = (await scene.load()).tail
    assert told is not None
    [row] = told.requests
    assert (row.name, row.worker_id, row.kv_tokens) == (f"g/{running.ref}", "w", 23)
    assert 0.0 < row.left.median < CAP
    assert told.is_settled
    [of] = told.workers
    assert of.pace.token_s(1, 0) == pytest.approx(PACE.token_s(1, 0), rel=0.05)
    running.leave()
    assert (await settled(scene)) is False, "one is underway"


async def settled(scene: Scene) -> bool | None:
    scene.forecast._due_s = 0.0
    tail = (await scene.load()).tail
    return tail.is_settled if tail else None


@pytest.mark.parametrize("why", ["many run", "the cache's size is unknown"])
async def test_there_is_no_tail_otherwise(why: str) -> None:
    scene = Scene(kv_room=10_000 if why == "many run" else 0)
    for number in range(40):
        scene.ran(f"r{number}", 10 + 5 * number, FinishReason.STOP)
    for number in range(5 if why == "many run" else 1):
        scene.runs(f"a{number}", 20)
    assert (await scene.load()).tail is None


async def test_of_responses_that_nobody_asks_for_the_latest_lengths_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecast, "MAX_UNTOLD", 5)
    scene = Scene()
    for number in range(12):
        scene.ran(f"e{number}", 1 + number, FinishReason.STOP)
        scene.ran(f"c{number}", 101 + number, FinishReason.LENGTH)
    load = await scene.load()
    assert (load.ended, load.cut) == (tuple(range(8, 13)), tuple(range(108, 113)))
    load = await scene.load()
    assert (load.ended, load.cut) == ((), ())
