"""Updates through several gateways, with workers in trouble, and after restarts."""

import asyncio
import time
from functools import partial
from pathlib import Path

import pytest
import torch

from tests.fakes.worker import FakeWorker
from tests.integration.gateway.conftest import Start
from tlt_common.client import SamplingParams
from tlt_common.client.tensors import stream
from tlt_common.client.updates import messages
from tlt_common.domain.weights import WeightsUpdate
from tlt_common.errors import InvalidRequestError, WeightsUnreadableError
from tlt_common.rpc.streams import answered
from tlt_gateway.weights.release import Release
from tlt_gateway.weights.release_store import ReleaseStore

EIGHT = SamplingParams(max_new_tokens=8)
Pair = tuple[FakeWorker, FakeWorker]
STATE = {"b": torch.ones(4)}
OTHER = {"b": torch.zeros(4)}
BYTES = {"b": STATE["b"].numpy().tobytes()}


@pytest.mark.parametrize("disk_s", [0.0, 0.3])
async def test_a_gateway_that_restarts_with_its_spool_brings_a_restarted_fleet_forward(
    start: Start, worker: FakeWorker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, disk_s: float
) -> None:
    async with start(worker, spool_dir=tmp_path) as client:
        await client.publish_weights(3, STATE)
        async with asyncio.timeout(10):
            while not list(tmp_path.glob("weights-*/release.json")):  # noqa: ASYNC110, ASYNC240 - written by a thread
                await asyncio.sleep(0.01)
    worker.policy_version, worker.weights = type(worker.policy_version)(0), {}
    recover = ReleaseStore.recover

    def recover_late(store: ReleaseStore) -> tuple[Release, ...]:
        time.sleep(disk_s)
        return recover(store)

    monkeypatch.setattr(ReleaseStore, "recover", recover_late)
    async with start(worker, spool_dir=tmp_path) as client:  # ready only once the worker serves version 3
        assert (await client.info()).policy_version == 3
        assert worker.weights == BYTES


async def test_repeating_an_update_at_another_gateway_succeeds_and_other_weights_are_refused(
    start: Start, pair: Pair
) -> None:
    async with start(*pair) as one, start(*pair) as other:
        await one.publish_weights(1, STATE)
        assert (await other.publish_weights(1, STATE)).workers == 2
        with pytest.raises(InvalidRequestError, match="the same weights again"):
            await other.publish_weights(1, OTHER)
        assert (await other.info()).policy_version == 1
    assert [fake.updates for fake in pair] == [[1], [1]]


async def test_of_two_updates_of_one_version_at_once_one_wins_on_every_worker(start: Start, pair: Pair) -> None:
    async with start(*pair) as one, start(*pair) as other:
        results = await asyncio.gather(
            one.publish_weights(1, STATE), other.publish_weights(1, OTHER), return_exceptions=True
        )
        assert len([result for result in results if not isinstance(result, BaseException)]) == 1
        await one.wait_ready(10, workers=2)
    assert pair[0].weights == pair[1].weights
    assert pair[0].release == pair[1].release


async def test_a_worker_that_cannot_store_weights_or_hangs_in_its_commit_is_left_behind(
    start: Start, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tlt_gateway.gateway.STRAGGLER_S", 0.2)
    async with start(*pair) as client:
        pair[1].stage_error = WeightsUnreadableError("No space left on device")
        assert (await client.publish_weights(1, STATE)).workers == 1
        pair[1].stage_error = None
        await client.wait_ready(10, workers=2)
        pair[1].commit_gate.clear()
        assert (await client.publish_weights(2, STATE)).workers == 1
        pair[1].commit_gate.set()
        await client.wait_ready(10, workers=2)
    assert [fake.policy_version for fake in pair] == [2, 2]


async def test_a_worker_that_joins_slowly_does_not_delay_an_update(start: Start, pair: Pair) -> None:
    async with start(*pair) as client:
        await client.publish_weights(1, STATE)
        await pair[1].kill()
        pair[1].policy_version = type(pair[1].policy_version)(0)
        pair[1].stage_gate.clear()
        await client.batch([[1]], 4, EIGHT)
        async with pair[1]:
            async with asyncio.timeout(10):
                while len(pair[1].orders) < 2:  # noqa: ASYNC110 - behind sockets
                    await asyncio.sleep(0.01)
            assert (await client.publish_weights(2, STATE)).workers == 1
            pair[1].stage_gate.set()
            await client.wait_ready(10, workers=2)
    assert pair[1].policy_version == 2


async def test_an_update_without_a_version_gets_the_next_one_also_a_second_time(start: Start, pair: Pair) -> None:
    async with start(*pair) as one, start(*pair) as other:
        assert (await one.publish_weights(None, STATE)).version == 1
        assert (await other.publish_weights(None, OTHER)).version == 2
        await one.publish_weights(7, STATE)
        assert (await other.publish_weights(None, OTHER)).version == 8
    assert [fake.updates for fake in pair] == [[1, 2, 7, 8]] * 2


async def test_an_update_without_a_version_that_is_repeated_takes_effect_once(start: Start, pair: Pair) -> None:
    async with start(*pair) as one, start(*pair) as other:
        header = WeightsUpdate(version=None, uri=None, key="key")
        for client in (one, other):
            sent = messages(header, stream(STATE))
            response = await answered(partial(client._gateways.stub.UpdateWeights, timeout=10), sent)
            assert response.policy_version == 1
    assert [fake.updates for fake in pair] == [[1], [1]]
