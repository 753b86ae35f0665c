"""A gateway with bearer tokens, as seen by the client."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from tests.fakes.tokens import SECRETS, TOKENS, write
from tests.fakes.worker import FakeWorker
from tests.integration.security.conftest import alive
from tlt_common.client import Client, SamplingParams
from tlt_common.errors import ConfigError, PermissionDeniedError, TltError, UnauthenticatedError
from tlt_common.rpc.channel import connect
from tlt_common.rpc.errors import translated
from tlt_gateway.config import GatewayConfig
from tlt_gateway.main import live

SERVICE = "RolloutService"


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    return write(tmp_path / "tokens.yaml")


@asynccontextmanager
async def gateway(tokens: Path, worker: FakeWorker) -> AsyncIterator[str]:
    config = GatewayConfig(workers=(worker.address,), tokens=tokens)
    async with alive(lambda tell: live(config, on_serving=tell)) as address:
        yield address


async def outcome(endpoint: str, secret: str | None, call: Callable[[Client], Any]) -> type[TltError] | None:
    """Return the type of the error raised by the call; None if it succeeded."""
    async with Client(endpoint, token=secret) as client:
        try:
            await call(client)
        except TltError as error:
            return type(error)
    return None


CALLS: dict[str, Callable[[Client], Any]] = {
    "info": lambda client: client.info(),
    "generate": lambda client: client.generate([5], SamplingParams(max_new_tokens=3)),
    "batch": lambda client: client.batch([[5]], 2, SamplingParams(max_new_tokens=3)),
    "abort": lambda client: client.abort("x"),
    "abort_all": lambda client: client.abort(everything=True),
    "publish": lambda client: client.publish_weights(1, {"w": np.zeros(4, dtype="float32")}),
}
READS = set(CALLS) - {"publish"}
NOTHING: set[str] = set()
MAY = {"trainer": set(CALLS), "reader": READS, "observer": NOTHING, "operator": set(CALLS)}


@pytest.mark.parametrize("holder", MAY)
async def test_a_token_is_good_for_its_scopes(holder: str, tokens: Path, refused: Callable[[str, str], float]) -> None:
    async with FakeWorker() as worker, gateway(tokens, worker) as endpoint:
        outcomes = {name: await outcome(endpoint, SECRETS[holder], call) for name, call in CALLS.items()}
    denied = set(CALLS) - MAY[holder]
    assert outcomes == {name: PermissionDeniedError if name in denied else None for name in CALLS}
    assert refused(SERVICE, "scope") == len(denied)


@pytest.mark.parametrize(
    ("secret", "reason"), [(None, "missing"), ("wrong-secret-0123456789", "unknown"), (SECRETS["former"], "expired")]
)
async def test_without_a_valid_token_nothing_is_done(
    secret: str | None, reason: str, tokens: Path, refused: Callable[[str, str], float]
) -> None:
    async with FakeWorker() as worker, gateway(tokens, worker) as endpoint:
        outcomes = [await outcome(endpoint, secret, call) for call in CALLS.values()]
    assert set(outcomes) == {UnauthenticatedError}
    assert refused(SERVICE, reason) == len(CALLS)
    assert not worker.prompts
    assert not worker.updates


async def test_health_is_free_and_reflection_is_not(tokens: Path) -> None:
    async with FakeWorker() as worker, gateway(tokens, worker) as endpoint, connect(endpoint) as channel:
        health = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
        assert health.status == health_pb2.HealthCheckResponse.SERVING

        async def services(*metadata: tuple[str, str]) -> int:
            ask = iter([reflection_pb2.ServerReflectionRequest(list_services="")])
            stub = reflection_pb2_grpc.ServerReflectionStub(channel)
            with translated():
                replies = stub.ServerReflectionInfo(ask, metadata=metadata)
                return sum([len(reply.list_services_response.service) async for reply in replies])

        with pytest.raises(UnauthenticatedError):
            await services()
        assert await services(("authorization", f"Bearer {SECRETS['reader']}"))


async def test_a_revoked_token_is_refused_at_the_next_call(tokens: Path) -> None:
    async with (
        FakeWorker() as worker,
        gateway(tokens, worker) as endpoint,
        Client(endpoint, token=SECRETS["reader"]) as client,
    ):
        await client.info()
        write(tokens, TOKENS[:1])
        with pytest.raises(UnauthenticatedError):
            await client.info()


async def test_a_client_takes_its_token_from_a_file_that_may_change(tokens: Path, tmp_path: Path) -> None:
    mine = tmp_path / "token"
    mine.write_text(f"{SECRETS['reader']}\n")
    async with FakeWorker() as worker, gateway(tokens, worker) as endpoint, Client(endpoint, token=mine) as client:
        await client.info()
        write(tokens, TOKENS[:1])
        mine.write_text(SECRETS["trainer"])
        await client.info()


async def test_a_malformed_file_of_tokens_ends_the_start(tokens: Path) -> None:
    write(tokens, [{"name": "nobody"}])
    async with FakeWorker() as worker:
        with pytest.raises(ExceptionGroup) as caught:
            async with gateway(tokens, worker):
                pass
    assert caught.group_contains(ConfigError, match="accepted")
