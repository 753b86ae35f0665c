"""What a gateway writes down of the requests, workers, rounds and updates of a run."""

import asyncio
import re
from pathlib import Path
from typing import TypeVar

import pytest

from tests.fakes.worker import FakeWorker
from tests.integration.gateway.conftest import Start
from tests.integration.gateway.test_loss import Pair, by_load, held, received
from tests.integration.gateway.test_weights import STATE
from tlt_common.client import SamplingParams
from tlt_common.domain.arm import ArmWindow
from tlt_common.domain.arm.rounds import WorkedRounds
from tlt_common.domain.response import FinishReason
from tlt_common.errors import WeightsError
from tlt_common.journal.gateway_lines import (
    EngineLine,
    PauseLine,
    PrefillLine,
    RequestOutcome,
    ResponseLine,
    RoundsLine,
    StayEnd,
    UpdateLine,
)
from tlt_common.journal.line import Line
from tlt_common.journal.reader import journals_in
from tlt_gateway.journal.groups import KEY_FILE

SIX = SamplingParams(max_new_tokens=6)
TWENTY = SamplingParams(max_new_tokens=20)
ROUNDS = WorkedRounds(
    serial=1,
    arms=tuple(
        ArmWindow(
            arm="off",
            group=group,
            rounds=100,
            accepted_tokens=0,
            produced_tokens=100 * group,
            elapsed_s=100.0,
            median_reward=1.0,
        )
        for group in (1, 2, 4)
    ),
    prefilled_tokens=100_000,
    prefill_s=0.001,
)
Kind = TypeVar("Kind", bound=Line)


def of(directory: Path, kind: type[Kind]) -> list[Kind]:
    """Return the lines of a kind."""
    (journal,) = journals_in(directory)
    return [line for line in journal.lines() if isinstance(line, kind)]


def written(directory: Path) -> str:
    """Return all that is in a directory."""
    return "".join(path.read_text("latin1") for path in directory.iterdir())


async def test_responses_are_written_with_lengths_times_and_places(start: Start, pair: Pair, tmp_path: Path) -> None:
    async with start(*pair, journal=tmp_path) as client:
        await client.batch([[5, 5], [7]], 2, SIX)
        await client.batch([[5, 5]], 1, SIX)
    responses = of(tmp_path, ResponseLine)
    assert sorted(line.prompt for line in responses) == [1, 1, 2, 2, 2]
    assert len({line.number for line in responses}) == 5
    assert len({line.group for line in responses if line.prompt == 2}) == 1, "siblings, and a later epoch"
    assert len({line.group for line in responses}) == 2
    for line in responses:
        assert (line.outcome, line.finish, line.tokens, line.cap) == (
            RequestOutcome.FINISHED,
            FinishReason.LENGTH,
            6,
            6,
        )
        assert line.first is not None
        assert line.arrived <= line.stays[0].began <= line.first <= line.stays[0].ended <= line.at
        assert [(stay.tokens, stay.end) for stay in line.stays] == [(6, StayEnd.OVER)]
        assert line.versions == (0,)
        assert line.rounds is not None
    assert {line.worker for line in of(tmp_path, EngineLine)} == {"w0", "w1"}
    assert {line.stays[0].worker for line in responses} == {"w0", "w1"}


async def test_the_written_bytes_name_no_token_and_no_caller(start: Start, worker: FakeWorker, tmp_path: Path) -> None:
    worker.vocab_size = 90_000
    async with start(worker, journal=tmp_path) as client:
        await client.generate([71_777, 81_888], SIX, request_id="the-name-of-a-request")
    text = written(tmp_path)
    assert '"kind":"response"' in text
    assert not re.search(r"71777|81888|81889|the-name-of-a-request", text)


async def test_a_request_of_a_lost_worker_was_at_two(start: Start, pair: Pair, tmp_path: Path) -> None:
    for fake in pair:
        await held(fake, after=7)
    async with start(*pair, journal=tmp_path) as client:
        stream = client.stream([5], TWENTY)
        await received(stream, 7)
        lost, other = by_load(pair)
        await lost.kill()
        other.gate.set()
        assert [chunk async for chunk in stream]
    (line,) = of(tmp_path, ResponseLine)
    assert [(stay.tokens, stay.end) for stay in line.stays] == [(7, StayEnd.LOST), (13, StayEnd.OVER)]
    assert len({stay.worker for stay in line.stays}) == 2


async def test_requests_that_end_early_say_how(start: Start, worker: FakeWorker, tmp_path: Path) -> None:
    await held(worker, after=2)
    async with start(worker, journal=tmp_path) as client:
        async with asyncio.TaskGroup() as group:
            aborted = group.create_task(client.generate([5], SIX, request_id="a"))
            await worker.until(running=1)
            await client.abort("a")
        assert aborted.result().finish_reason is FinishReason.ABORT
        stream = client.stream([5], SIX)
        await received(stream, 2)
        await stream.aclose()
        await worker.until(running=0)
    assert [(line.outcome, line.finish) for line in of(tmp_path, ResponseLine)] == [
        (RequestOutcome.ABORTED, FinishReason.ABORT),
        (RequestOutcome.HUNG_UP, None),
    ]


async def test_updates_and_pauses_are_written(start: Start, pair: Pair, tmp_path: Path) -> None:
    async with start(*pair, journal=tmp_path) as client:
        await client.publish_weights(3, STATE)
        pair[1].stage_error = WeightsError("no", field="tensor")
        with pytest.raises(WeightsError):
            await client.publish_weights(4, STATE)
        await client.pause()
        await client.proceed()
    updates = of(tmp_path, UpdateLine)
    assert [(line.version, line.done, line.workers) for line in updates] == [(3, True, 2), (4, False, 0)]
    assert all(line.began <= line.at for line in updates)
    assert [line.paused for line in of(tmp_path, PauseLine)] == [True, False]


async def test_a_pause_moves_a_request_with_its_tokens(start: Start, worker: FakeWorker, tmp_path: Path) -> None:
    await held(worker, after=2)
    async with start(worker, journal=tmp_path) as client, asyncio.TaskGroup() as group:
        group.create_task(client.generate([5], SIX))
        await worker.until(running=1)
        await client.pause()
        worker.gate.set()
        await client.proceed()
    (line,) = of(tmp_path, ResponseLine)
    assert [stay.end for stay in line.stays] == [StayEnd.MOVED, StayEnd.OVER]
    assert sum(stay.tokens for stay in line.stays) == 6


async def test_the_rounds_of_each_worker_are_written_once(start: Start, pair: Pair, tmp_path: Path) -> None:
    for fake in pair:
        fake.rounds = ROUNDS
    async with start(*pair, journal=tmp_path) as client:
        await client.generate([5], SIX)
    rounds = {line.batch: line for line in of(tmp_path, RoundsLine)}
    assert {batch: (line.rounds, line.seconds) for batch, line in rounds.items()} == dict.fromkeys(
        (1, 2, 4), (200, 200.0)
    )
    (prefill,) = of(tmp_path, PrefillLine)
    assert prefill.tokens == 2 * ROUNDS.prefilled_tokens


@pytest.mark.parametrize("left", [b"", b"short", b"x" * 33])
async def test_a_key_that_a_full_disk_has_left_stops_no_gateway(
    start: Start, worker: FakeWorker, tmp_path: Path, left: bytes
) -> None:
    (tmp_path / KEY_FILE).write_bytes(left)
    async with start(worker, journal=tmp_path) as client:
        assert len((await client.generate([5], SIX)).token_ids) == 6
