"""Mutual TLS between services: allowed peers, and certificate rotation at runtime."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from tests.fakes.authority import Authority
from tests.fakes.gateway_watch import first_report
from tests.fakes.responses import responses
from tests.fakes.worker import FakeWorker
from tlt_common.config.base import TlsSettings
from tlt_common.domain.ids import RequestId
from tlt_common.domain.prompt import Prompt, SamplingParams
from tlt_common.domain.requests import Start
from tlt_common.errors import InvalidRequestError, PermissionDeniedError, UnavailableError
from tlt_common.rpc.channel import connect, secure
from tlt_common.rpc.errors import translated
from tlt_common.rpc.security.access import Roles
from tlt_common.rpc.server import Service, internal, serving
from tlt_common.wire import worker as wire

CALL_S = 10.0
MIB = 2**20
LONG = Prompt(request_id=RequestId("long"), token_ids=(1,), sampling=SamplingParams(max_new_tokens=3))


async def ask(channel: grpc.aio.Channel) -> str:
    return (await first_report(channel, CALL_S)).info.worker_id


async def asked(worker: FakeWorker, tls: TlsSettings | None, *, to: str = "worker") -> str:
    async with connect(worker.address, to=to, tls=tls) as channel:
        return await ask(channel)


async def test_a_gateway_reaches_a_worker(worker: FakeWorker, authority: Authority) -> None:
    assert await asked(worker, authority.issue("gateway")) == "w0"


async def test_another_role_is_refused_and_counted(
    worker: FakeWorker, authority: Authority, refused: Callable[[str, str], float]
) -> None:
    with pytest.raises(PermissionDeniedError, match=r"the certificate is for cache; accepted: gateway\.tlt\.internal"):
        await asked(worker, authority.issue("cache"))
    assert refused("WorkerService", "role") == 1


async def test_no_message_of_another_role_is_read(worker: FakeWorker, authority: Authority) -> None:
    """A call that never sends its message is refused, and so is one whose message is garbage or larger than any."""
    for method in ("FetchWeights", "StageWeights"):
        async with connect(worker.address, to="worker", tls=authority.issue("cache")) as channel:
            path = f"/{wire.SERVICE_NAME}/{method}"
            silent: Any = channel.stream_stream(path)()
            async with asyncio.timeout(CALL_S):
                assert await silent.code() is grpc.StatusCode.PERMISSION_DENIED
            for message in (b"\xff" * 100, bytes(64 * MIB)):
                unary_stream: Any = channel.unary_stream(path)
                with pytest.raises(PermissionDeniedError, match="is for cache"), translated():
                    await anext(aiter(unary_stream(message)))


async def test_a_call_without_its_message_is_refused(worker: FakeWorker, authority: Authority) -> None:
    async with connect(worker.address, to="worker", tls=authority.issue("gateway")) as channel:
        call: Any = channel.stream_stream(f"/{wire.SERVICE_NAME}/FetchWeights")()
        await call.done_writing()
        with pytest.raises(InvalidRequestError, match="the call has no message"), translated():
            await anext(aiter(call))


async def test_an_operator_may_call_everything(worker: FakeWorker, authority: Authority) -> None:
    assert await asked(worker, authority.issue("admin")) == "w0"


async def test_a_certificate_of_another_authority_makes_no_connection(
    worker: FakeWorker, authority: Authority, stranger: Authority
) -> None:
    with pytest.raises(UnavailableError):
        await asked(worker, stranger.issue("gateway", trusts=authority))


async def test_no_certificate_makes_no_connection(worker: FakeWorker, authority: Authority) -> None:
    credentials = grpc.ssl_channel_credentials(authority.ca.read_bytes())
    async with secure(worker.address, credentials) as channel:
        with pytest.raises(UnavailableError):
            await ask(channel)


async def test_plain_text_makes_no_connection(worker: FakeWorker) -> None:
    with pytest.raises(UnavailableError):
        await asked(worker, None)


async def test_a_server_of_another_role_is_not_believed(worker: FakeWorker, authority: Authority) -> None:
    with pytest.raises(UnavailableError):
        await asked(worker, authority.issue("gateway"), to="coordinator")


async def test_a_server_of_another_authority_is_not_believed(
    worker: FakeWorker, authority: Authority, stranger: Authority
) -> None:
    with pytest.raises(UnavailableError):
        await asked(worker, authority.issue("gateway", trusts=stranger))


async def test_reflection_needs_a_role_and_health_none(
    worker: FakeWorker, authority: Authority, refused: Callable[[str, str], float]
) -> None:
    async def names(channel: grpc.aio.Channel) -> list[str]:
        ask = iter([reflection_pb2.ServerReflectionRequest(list_services="")])
        with translated():
            replies = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(ask)
            return [service.name async for reply in replies for service in reply.list_services_response.service]

    async with connect(worker.address, to="worker", tls=authority.issue("cache")) as channel:
        assert wire.SERVICE_NAME in await names(channel)
    certificate = authority.issue("laptop.example", bare=True)
    async with connect(worker.address, to="worker", tls=certificate) as channel:
        health = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=CALL_S)
        assert health.status == health_pb2.HealthCheckResponse.SERVING
        with pytest.raises(PermissionDeniedError, match="no component"):
            await names(channel)
    assert refused("ServerReflection", "role") == 1


async def test_whoever_is_in_the_pod_comes_over_its_socket(authority: Authority, tmp_path: Path) -> None:
    fake = FakeWorker()
    service = Service(name=wire.SERVICE_NAME, add=lambda server: wire.add_servicer(fake, server))
    tls = authority.issue("worker")
    async with (
        serving("127.0.0.1:0", service, uds=tmp_path / "s", security=internal(tls, Roles({}))) as server,
        connect(f"unix:{tmp_path / 's'}", tls=tls) as beside,
        connect(f"127.0.0.1:{server.port}", to="worker", tls=tls) as outside,
    ):
        assert await ask(beside) == "w0"
        with pytest.raises(PermissionDeniedError):
            await ask(outside)


async def test_renewed_certificates_are_picked_up_while_old_connections_go_on(
    worker: FakeWorker, authority: Authority, stranger: Authority, tmp_path: Path
) -> None:
    """The certificate authority changes too, so that a new connection requires the new files on both sides."""
    worker.free_tokens = 1
    worker.gate.clear()
    tls = authority.issue("gateway")
    async with connect(worker.address, to="worker", tls=tls) as channel, responses(channel) as of_worker:
        chunks = of_worker.generate(LONG).chunks()
        await anext(chunks)
        new = Authority(tmp_path / "own")
        new.issue("worker")
        with pytest.raises(UnavailableError):
            await asked(worker, stranger.issue("gateway"))  # the server has the new files now
        new.issue("gateway")
        assert await ask(channel) == "w0"
        worker.gate.set()
        assert sum([len(chunk.token_ids) async for chunk in chunks]) == 2


async def test_closing_a_channel_ends_calls_on_its_retired_connections_too(
    worker: FakeWorker, authority: Authority
) -> None:
    worker.gate.clear()
    async with connect(worker.address, to="worker", tls=authority.issue("gateway")) as channel:
        answer = wire.Stub(channel).GenerateMany(iter([wire.request_to_pb(Start(prompt=LONG))]))
        await worker.until(running=1)
        authority.issue("gateway")
        await ask(channel)
    assert answer.cancelled()
    await worker.until(running=0)


async def test_a_half_written_renewal_takes_nobody_down(worker: FakeWorker, authority: Authority) -> None:
    mine, theirs = authority.issue("gateway"), authority.issue("worker")
    async with connect(worker.address, to="worker", tls=mine) as channel:
        theirs.key.write_text("half")
        mine.certificate.write_text("half")
        assert await asyncio.gather(*(ask(channel) for _ in range(3))) == ["w0"] * 3
        assert await asked(worker, authority.issue("admin")) == "w0"
