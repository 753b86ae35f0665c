"""The campaign's load finds every response that is lost or changed. Clients are fakes; time is virtual."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from tlt_bench.campaign.suite.load import Flight, Load, undisturbed
from tlt_bench.campaign.suite.requests import GROUP, draw
from tlt_common.client import Client
from tlt_common.domain.batch import Sample
from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_common.domain.prompt import SamplingParams
from tlt_common.domain.response import FinishReason, TokenChunk
from tlt_common.errors import UnavailableError

REQUESTS = draw(2, seed=1, min_tokens=4, max_tokens=8)
BROKEN = cast("int", REQUESTS[1].sampling.seed)
"""Seed of the request that goes wrong."""


def chunk(seed: int, place: int, *, last: bool) -> TokenChunk:
    return TokenChunk(
        request_id=RequestId("r"),
        token_ids=(seed % 100 + place,),
        logprobs=(-0.5,),
        policy_versions=(PolicyVersion(0),),
        finish_reason=FinishReason.LENGTH if last else None,
    )


class FakeClient:
    """Answers with two tokens that depend on the seed, one second each; `fault` is what goes wrong with one request."""

    def __init__(self, fault: str = "") -> None:
        self.fault = fault

    async def stream(self, _: Sequence[int], sampling: SamplingParams) -> AsyncGenerator[TokenChunk, None]:
        seed = cast("int", sampling.seed)
        fault = self.fault if seed == BROKEN else ""
        await asyncio.sleep(1)
        if fault == "empty":
            return
        yield chunk(seed, 0, last=False)
        await asyncio.sleep(1)
        match fault:
            case "error":
                raise UnavailableError("the gateway is gone")
            case "hangs":
                await asyncio.Event().wait()
            case "token":
                yield chunk(seed, 7, last=True)
            case "truncated":
                return
            case "twice":
                yield chunk(seed, 0, last=False)
                yield chunk(seed, 1, last=True)
            case _:
                yield chunk(seed, 1, last=True)

    async def generate(self, prompt: Sequence[int], sampling: SamplingParams) -> TokenChunk:
        chunks = [each async for each in self.stream(prompt, sampling)]
        return chunks[0].followed_by(chunks[1])

    async def stream_batch(
        self, prompts: Sequence[Sequence[int]], samples: int, sampling: SamplingParams
    ) -> AsyncGenerator[Sample, None]:
        assert samples == 1
        for index, prompt in enumerate(prompts):
            seed = cast("int", sampling.seed) + index
            if seed == BROKEN and self.fault == "missing":
                continue
            if seed == BROKEN and self.fault == "batch error":
                raise UnavailableError("the gateway is gone")
            response = await self.generate(prompt, replace(sampling, seed=seed))
            yield Sample(
                prompt_index=index,
                sample_index=0,
                response=response,
                finished_count=index + 1,
                total_count=GROUP,
                elapsed_s=1.0,
            )


async def played(fault: str, *, senders: int) -> tuple[Load, list[str], Mapping[int, TokenChunk]]:
    expected = await undisturbed(cast(Client, FakeClient()), REQUESTS)
    found: list[str] = []
    client = cast(Any, FakeClient(fault))
    load = Load([client], REQUESTS, expected, senders=senders, report=lambda text, _: found.append(text))
    return load, found, expected


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("fault", "lost", "changed"),
    [
        ("", 0, 0),
        ("error", 1, 0),
        ("empty", 1, 0),
        ("token", 0, 1),
        ("truncated", 0, 1),
        ("twice", 0, 1),
    ],
)
async def test_a_single_response_that_is_lost_or_changed_is_counted(fault: str, lost: int, changed: int) -> None:
    load, found, _ = await played(fault, senders=1)
    async with asyncio.TaskGroup() as group:
        group.create_task(load.run())
        await asyncio.sleep(7)  # four requests of two seconds, of which one goes wrong
        load.stop()
    assert (load.lost, load.changed) == (lost, changed)
    assert len(found) == lost + changed
    assert all(text.startswith("request 1 ") for text in found)


@pytest.mark.looptime
@pytest.mark.parametrize(("fault", "lost"), [("", 0), ("missing", 1), ("batch error", 3)])
async def test_every_sample_that_a_batch_does_not_deliver_is_lost(fault: str, lost: int) -> None:
    load, found, _ = await played(fault, senders=4)
    async with asyncio.TaskGroup() as group:
        group.create_task(load.run())
        await asyncio.sleep(0.5)
        load.stop()
    assert load.lost == lost == len(found)
    assert load.answers == 3 + GROUP - lost


@pytest.mark.looptime
async def test_what_never_ends_is_lost_when_its_owner_gives_up() -> None:
    load, found, _ = await played("hangs", senders=2)
    task = asyncio.ensure_future(load.run())
    await asyncio.sleep(5)
    load.stop()
    await asyncio.sleep(20)
    assert not task.done()
    assert len(load.streams) == 1
    load.give_up()
    task.cancel()
    await asyncio.wait({task})
    assert load.lost == 1
    assert "no end" in found[0]


@pytest.mark.looptime
async def test_senders_pause_so_that_workers_become_idle() -> None:
    load, _, _ = await played("", senders=3)
    task = asyncio.ensure_future(load.run())
    in_flight = []
    for _ in range(60):
        await asyncio.sleep(1)
        in_flight.append(len(load.streams))
    load.stop()
    await task
    assert 0 in in_flight
    assert in_flight[-1] or in_flight[-2] or in_flight[-3]  # and go on
    assert load.lost == load.changed == 0


@pytest.mark.parametrize(
    ("arrivals_s", "ended_s", "moved_s"),
    [
        ([9.0, 10.4, 21.0, 22.0], None, 21.0),  # the chunk at 10.4 was on its way
        ([9.0, 10.4], 10.4, 10.4),  # it had ended before anything could be seen of the stop
        ([9.0], 25.0, 25.0),
        ([9.0, 10.4], None, None),
        ([], None, None),
    ],
)
def test_a_request_has_moved_when_a_later_chunk_arrived_or_it_ended(
    arrivals_s: list[float], ended_s: float | None, moved_s: float | None
) -> None:
    flight = Flight(requests=REQUESTS[:1], began_s=8.0, arrivals_s=arrivals_s, ended_s=ended_s)
    assert flight.moved_s(10.0, in_transit_s=0.5) == moved_s
