"""What a gateway tells of its requests: numbers of tokens, each length once."""

from contextlib import ExitStack
from types import SimpleNamespace
from typing import cast

import pytest

from tests.fakes.chunks import chunk
from tests.unit.tlt_gateway.pooled import worker
from tlt_common.domain.ids import RequestId
from tlt_common.domain.prompt import Prompt, SamplingParams
from tlt_common.domain.response import FinishReason
from tlt_common.domain.transcript import Transcript
from tlt_common.load import GatewayLoad
from tlt_gateway.queue.gate import Gate
from tlt_gateway.requests import lengths
from tlt_gateway.requests.lengths import RequestLengths
from tlt_gateway.requests.requests import Requests
from tlt_gateway.requests.running_request import RunningRequest
from tlt_gateway.workers.response_stream import ResponseStream

CAP = 512


class Scene:
    """A gateway with one worker, whose requests are made by hand."""

    def __init__(self) -> None:
        self.worker = worker()
        self.entered = ExitStack()
        self.requests = Requests(lambda _: None, self.over)
        self.lengths = RequestLengths(lambda: self.requests)

    def over(self, request: RunningRequest) -> None:
        self.lengths.over(request)

    def request(self, name: str, generated: int) -> RunningRequest:
        prompt = Prompt(
            request_id=RequestId(name), token_ids=(1, 2, 3), sampling=SamplingParams(max_new_tokens=CAP), owner="me"
        )
        made = RunningRequest(transcript=Transcript(prompt), gate=Gate())
        made.transcript.add(chunk(*(1,) * generated))
        return made

    def runs(self, name: str, generated: int) -> None:
        """Let a request run for good."""
        made = self.request(name, generated)
        self.entered.enter_context(self.requests.entered(made))
        stream = cast("ResponseStream", SimpleNamespace(is_complete=False))
        made.begin(self.worker, RequestId(f"{name}~1"), stream, now_s=0.0)

    def ran(self, name: str, generated: int, reason: FinishReason) -> None:
        """Let a request run to its end."""
        made = self.request(name, generated)
        with self.requests.entered(made):
            made.transcript.end(reason)

    async def load(self) -> GatewayLoad:
        return await self.lengths.load()


async def test_what_runs_is_counted_by_worker_cap_and_bits() -> None:
    scene = Scene()
    for name, generated in (("a", 0), ("b", 5), ("c", 6), ("d", 300)):
        scene.runs(name, generated)
    [told] = (await scene.load()).workers
    assert told.worker_id == "w"
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


async def test_of_responses_that_nobody_asks_for_the_latest_lengths_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lengths, "MAX_UNTOLD", 5)
    scene = Scene()
    for number in range(12):
        scene.ran(f"e{number}", 1 + number, FinishReason.STOP)
        scene.ran(f"c{number}", 101 + number, FinishReason.LENGTH)
    load = await scene.load()
    assert (load.ended, load.cut) == (tuple(range(8, 13)), tuple(range(108, 113)))
    load = await scene.load()
    assert (load.ended, load.cut) == ((), ())
