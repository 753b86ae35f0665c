"""Gateways and workers that are shutting down."""

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prometheus_client import REGISTRY

from tests.fakes.worker import FakeWorker
from tests.integration.gateway.conftest import Start
from tlt_common.client import Client, SamplingParams
from tlt_common.errors import ConfigError, UnavailableError
from tlt_common.rpc.addresses import require_free
from tlt_common.rpc.app import exposed
from tlt_common.rpc.drain import Drain
from tlt_gateway.config import GatewayConfig
from tlt_gateway.main import draining, live

Pair = tuple[FakeWorker, FakeWorker]
FOUR = SamplingParams(max_new_tokens=4)


@asynccontextmanager
async def gateway(
    worker: FakeWorker, drain: Drain, *, listen: str = "127.0.0.1:0", **changes: Any
) -> AsyncIterator[str]:
    config = GatewayConfig(workers=(worker.address,), listen=listen, **changes)
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    async with asyncio.TaskGroup() as tasks:
        serving = tasks.create_task(live(config, drain=drain, on_serving=address.set_result))
        async with asyncio.timeout(10):
            await address
        yield address.result()
        serving.cancel()


def readyz(port_file: Path) -> int:
    try:
        with urllib.request.urlopen(f"http://{json.loads(port_file.read_text())['metrics']}/readyz") as page:
            return int(page.status)
    except urllib.error.HTTPError as error:
        return error.code


async def test_a_gateway_that_drains_finishes_its_responses_and_disconnects(worker: FakeWorker, tmp_path: Path) -> None:
    worker.free_tokens = 1
    worker.gate.clear()
    drain, config = draining(), GatewayConfig(metrics_port=0, port_file=tmp_path / "ports.json")
    assert config.port_file
    with exposed(config):
        async with gateway(worker, drain) as address, Client(address) as client, asyncio.TaskGroup() as tasks:
            stream = client.stream([5], FOUR)
            chunks = [await anext(stream)]
            assert await asyncio.to_thread(readyz, config.port_file) == 200
            complete = tasks.create_task(drain.complete(60))
            async with asyncio.timeout(10):
                while await asyncio.to_thread(readyz, config.port_file) != 503:
                    pass
            async with Client(address, patience_s=0) as late:
                with pytest.raises(UnavailableError):
                    await late.generate([5], FOUR)
            assert not complete.done()
            worker.gate.set()
            chunks += [chunk async for chunk in stream]
            assert [token for chunk in chunks for token in chunk.token_ids] == [6, 7, 8, 9]
            assert await complete


async def test_a_client_finds_the_gateway_that_replaces_one_that_drains(worker: FakeWorker) -> None:
    """The new gateway has the same address, as behind a Service; the client's old call continues at the old one."""
    worker.free_tokens = 1
    worker.gate.clear()
    drain = draining()
    async with gateway(worker, drain) as address, Client(address) as client, asyncio.TaskGroup() as tasks:
        stream = client.stream([5], FOUR)
        chunks = [await anext(stream)]
        tasks.create_task(drain.complete(60))
        async with asyncio.timeout(10):
            while is_taken(address):  # noqa: ASYNC110 - the kernel sends no notification
                await asyncio.sleep(0.01)
        async with gateway(worker, draining(), listen=address):
            await client.wait_ready(10)
            worker.gate.set()
            assert (await client.generate([7], FOUR)).token_ids == (8, 9, 10, 11)
        chunks += [chunk async for chunk in stream]
    assert [token for chunk in chunks for token in chunk.token_ids] == [6, 7, 8, 9]


def is_taken(address: str) -> bool:
    try:
        require_free(address, named="listen")
    except ConfigError:
        return True
    return False


async def test_requests_refused_by_a_worker_that_drains_are_not_lost_ones(
    start: Start, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Moves are disabled, so that any request that counted as lost would fail."""
    monkeypatch.setattr("tlt_gateway.gateway.MAX_MOVES", 0)
    monkeypatch.setattr("tlt_gateway.gateway.PROBE_S", 60)
    leaving, staying = pair
    leaving.reticent = True
    moved = REGISTRY.get_sample_value("tlt_gateway_moved_requests_total")
    async with start(*pair) as client:
        await leaving.drain.complete(0)
        seeded = SamplingParams(max_new_tokens=4, seed=3)
        answers = await client.batch([[5]], 12, seeded)
        assert [answer.token_ids for answer in answers[0]] == [(6, 7, 8, 9)] * 12
        assert (await client.info()).workers == 1
    assert not leaving.prompts
    assert len(staying.prompts) == 12
    assert REGISTRY.get_sample_value("tlt_gateway_moved_requests_total") == moved


async def test_a_worker_that_says_that_it_drains_is_not_asked_and_gets_new_weights_for_what_runs(
    start: Start, pair: Pair
) -> None:
    leaving, staying = pair
    for fake in pair:
        fake.free_tokens = 1
        fake.gate.clear()
    async with start(*pair) as client, asyncio.TaskGroup() as tasks:
        streams = [client.stream([5], FOUR) for _ in pair]
        firsts = [await anext(stream) for stream in streams]
        assert leaving.running
        tasks.create_task(leaving.drain.complete(60))
        async with asyncio.timeout(10):
            while (await client.info()).workers != 1:
                pass
        asked = len(staying.prompts)
        later = tasks.create_task(client.batch([[5]], 6, FOUR))
        async with asyncio.timeout(10):
            while len(staying.prompts) < asked + 6:
                await client.info()
        await client.publish_weights(1, {"w": np.zeros(4, dtype="float32")})
        assert leaving.updates == staying.updates == [1]
        for fake in pair:
            fake.gate.set()
        for first, stream in zip(firsts, streams, strict=True):
            tokens = [*first.token_ids, *[token async for chunk in stream for token in chunk.token_ids]]
            assert tokens == [6, 7, 8, 9]
        assert len((await later)[0]) == 6
    assert len(leaving.prompts) == 1
