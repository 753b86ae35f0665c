"""Gateways that vanish without closing a connection, and names of which not every address answers."""

import asyncio
from contextlib import AsyncExitStack
from socket import socket

import pytest

from tests.fakes.relay import Relay
from tests.fakes.worker import FakeWorker
from tests.integration.gateway.conftest import Start
from tests.integration.gateway.test_resume import EIGHT, Received, paused
from tlt_common.client import Client
from tlt_common.rpc import channel

SOONER = {"grpc.keepalive_time_ms": 300, "grpc.http2.ping_timeout_ms": 300}
"""Instead of the documented times, which would make these tests last a minute."""


def either(*addresses: str) -> str:
    """A target with several addresses, tried in this order, as gRPC makes of a DNS name."""
    return f"ipv4:{','.join(addresses)}"


def closed_address() -> str:
    """An address at which nothing listens."""
    with socket() as one:
        one.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{one.getsockname()[1]}"


@pytest.mark.parametrize("one_name", [False, True], ids=["two endpoints", "one name"])
async def test_a_response_goes_on_elsewhere_when_its_gateway_vanishes(
    start: Start, worker: FakeWorker, one_name: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused(worker, 3)
    found = Received()
    async with AsyncExitStack() as stack:
        first, second = [await stack.enter_async_context(start(worker)) for _ in range(2)]
        relay = await stack.enter_async_context(Relay(first.endpoint))
        monkeypatch.setattr(channel, "OPTIONS", tuple((dict(channel.OPTIONS) | SOONER).items()))
        addresses = [relay.address, second.endpoint]
        client = await stack.enter_async_context(Client(either(*addresses) if one_name else addresses))
        group = await stack.enter_async_context(asyncio.TaskGroup())
        streaming = group.create_task(found.collect(client))
        await found.until(3)
        relay.freeze()
        worker.gate.set()
        async with asyncio.timeout(30):
            await streaming
    assert found.token_ids == list(range(6, 14))
    assert [prompt.prefix_token_ids for prompt in worker.prompts] == [(), (6, 7, 8)]


@pytest.mark.parametrize("refuses", [True, False], ids=["refuses", "is silent"])
async def test_a_dead_first_address_of_a_name_stops_nobody(start: Start, worker: FakeWorker, refuses: bool) -> None:
    async with start(worker) as direct, Relay(direct.endpoint) as relay:
        relay.freeze()
        dead = closed_address() if refuses else relay.address
        async with Client(either(dead, direct.endpoint), patience_s=0) as client, asyncio.timeout(30):
            await client.wait_ready(20)
            assert (await client.generate([5], EIGHT)).token_ids == tuple(range(6, 14))
            assert [len(samples) for samples in await client.batch([[1], [2]], 2, EIGHT)] == [2, 2]


def test_a_silent_peer_is_noticed_within_the_documented_time() -> None:
    options = dict(channel.OPTIONS)
    for answer in ("grpc.keepalive_timeout_ms", "grpc.http2.ping_timeout_ms"):
        assert options["grpc.keepalive_time_ms"] + options[answer] == 1000 * channel.NOTICED_S
    assert f"after {channel.NOTICED_S} s" in (Client.__doc__ or "")
    assert options["grpc.http2.max_pings_without_data"] == 0  # otherwise gRPC stops asking after two pings
