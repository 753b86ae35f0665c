"""The services together over mutual TLS: real gateway, coordinator, cache and tuner, with a scripted engine."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from tests.fakes.authority import Authority
from tests.fakes.lease_holder import IDLE, LeaseHolder
from tests.fakes.tokens import SECRETS, TOKENS, write
from tests.fakes.worker import FakeWorker
from tests.integration.security.conftest import alive
from tlt_common.client import BlockingClient, Client, SamplingParams
from tlt_common.domain.fleet import WorkerHello
from tlt_common.domain.ids import WorkerId
from tlt_common.errors import UnavailableError
from tlt_coordinator.config import CoordinatorConfig
from tlt_coordinator.main import Addresses
from tlt_coordinator.main import serve as serve_coordinator
from tlt_gateway.config import GatewayConfig
from tlt_gateway.main import live

FOUR = SamplingParams(max_new_tokens=4)


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    return write(tmp_path / "tokens.yaml")


@pytest_asyncio.fixture
async def addresses(authority: Authority, tokens: Path) -> AsyncIterator[Addresses]:
    """Run a coordinator; yield its addresses."""
    config = CoordinatorConfig(tls=authority.issue("coordinator"), tokens=tokens)
    async with alive(lambda tell: serve_coordinator(config, on_serving=tell)) as served:
        yield served


@pytest_asyncio.fixture
async def endpoint(authority: Authority, tokens: Path, addresses: Addresses, worker: FakeWorker) -> AsyncIterator[str]:
    """Run a gateway that discovered a worker through the coordinator; yield its address."""
    hello = WorkerHello(
        worker_id=WorkerId("w0"), address=worker.address, model="fake", device="scripted", max_running=8
    )
    config = GatewayConfig(coordinator=addresses.grpc, tls=authority.issue("gateway"), tokens=tokens)
    async with (
        LeaseHolder(addresses.grpc, opening=(hello, IDLE), tls=authority.issue("worker")),
        alive(lambda tell: live(config, on_serving=tell)) as served,
    ):
        yield served


async def test_a_rollout_goes_through_the_whole_suite(endpoint: str, authority: Authority, worker: FakeWorker) -> None:
    async with Client(endpoint, token=SECRETS["trainer"], ca=authority.ca) as client:
        await client.wait_ready(10, workers=1)
        groups = await client.batch([[5], [6]], 3, FOUR)
    assert [[response.token_ids for response in group] for group in groups] == [[(6, 7, 8, 9)] * 3, [(7, 8, 9, 10)] * 3]
    assert len(worker.prompts) == 6


async def test_the_blocking_client_does_the_same(endpoint: str, authority: Authority) -> None:
    def rollout() -> tuple[int, ...]:
        with BlockingClient(endpoint, token=SECRETS["trainer"], ca=authority.ca) as client:
            client.wait_ready(10)
            return client.generate([5], FOUR).token_ids

    assert await asyncio.to_thread(rollout) == (6, 7, 8, 9)


async def test_the_name_of_the_role_may_stand_for_that_of_the_host(endpoint: str, authority: Authority) -> None:
    async with Client(endpoint, token=SECRETS["reader"], ca=authority.ca, server_name="gateway.tlt.internal") as client:
        await client.wait_ready(10)
    async with Client(endpoint, token=SECRETS["reader"], ca=authority.ca, server_name="example.org") as client:
        with pytest.raises(UnavailableError):
            await client.generate([5], FOUR)


async def test_a_client_believes_no_other_authority_until_its_file_names_it(
    endpoint: str, authority: Authority, stranger: Authority, tmp_path: Path
) -> None:
    ca = tmp_path / "ca.pem"
    ca.write_bytes(stranger.ca.read_bytes())
    async with Client(endpoint, token=SECRETS["reader"], ca=ca) as client:
        with pytest.raises(UnavailableError):
            await client.generate([5], FOUR)
        ca.write_bytes(authority.ca.read_bytes())
        await client.wait_ready(10)


async def status(url: str, client: httpx.AsyncClient, secret: str | None = None) -> int:
    headers = {"Authorization": f"Bearer {secret}"} if secret else {}
    return (await client.get(url, headers=headers)).status_code


async def test_the_status_page_is_https_for_those_who_may_look(
    addresses: Addresses, authority: Authority, tokens: Path, refused: Callable[[str, str], float]
) -> None:
    page = f"https://{addresses.http}"
    async with httpx.AsyncClient(verify=authority.client()) as client:
        assert await status(f"{page}/healthz", client) == 200
        assert await status(f"{page}/status", client, SECRETS["operator"]) == 200
        assert await status(f"{page}/status", client, SECRETS["observer"]) == 200
        assert await status(f"{page}/status", client) == 401
        assert await status(f"{page}/status", client, SECRETS["former"]) == 401
        assert await status(f"{page}/status", client, SECRETS["trainer"]) == 403
        write(tokens, TOKENS[:2])
        assert await status(f"{page}/status", client, SECRETS["operator"]) == 401
    assert [refused("StatusPage", reason) for reason in ("missing", "expired", "scope", "unknown")] == [1, 1, 1, 1]


async def test_the_status_page_shows_a_renewed_certificate(
    addresses: Addresses, authority: Authority, tmp_path: Path
) -> None:
    new = Authority(tmp_path / "own")
    new.issue("coordinator")
    async with httpx.AsyncClient(verify=new.client()) as client:
        assert await status(f"https://{addresses.http}/healthz", client) == 200
    async with httpx.AsyncClient(verify=authority.client()) as client:
        with pytest.raises(httpx.ConnectError):
            await status(f"https://{addresses.http}/healthz", client)
