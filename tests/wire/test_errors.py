"""Every error of the tree survives the wire with class, message and field."""

from typing import Any

import pytest

from tlt_common import errors
from tlt_common.rpc.channel import connect
from tlt_common.rpc.errors import CODES, translated
from tlt_common.rpc.server import Service, serving
from tlt_common.wire import rollout as wire


def tree(kind: type[errors.TltError] = errors.TltError) -> list[type[errors.TltError]]:
    return [kind, *(below for child in kind.__subclasses__() for below in tree(child))]


class Refusing(wire.Servicer):
    """Fails every call with the same error."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def GetServerInfo(self, request: Any, context: Any) -> Any:
        raise self.error

    async def Generate(self, request: Any, context: Any) -> Any:
        raise self.error
        yield

    async def GenerateBatch(self, request: Any, context: Any) -> Any:
        raise self.error
        yield

    async def Announce(self, request: Any, context: Any) -> Any:
        raise self.error

    async def Abort(self, request: Any, context: Any) -> Any:
        raise self.error

    async def Pause(self, request: Any, context: Any) -> Any:
        raise self.error

    async def ReleaseMemory(self, request: Any, context: Any) -> Any:
        raise self.error

    async def ResumeMemory(self, request: Any, context: Any) -> Any:
        raise self.error

    async def Proceed(self, request: Any, context: Any) -> Any:
        raise self.error

    async def UpdateWeights(self, request_iterator: Any, context: Any) -> Any:
        async for _ in request_iterator:
            pass
        raise self.error


async def raised_by(error: Exception, *, streaming: bool) -> Exception:
    service = Service(name=wire.SERVICE_NAME, add=lambda server: wire.add_servicer(Refusing(error), server))
    async with serving("127.0.0.1:0", service) as server, connect(f"127.0.0.1:{server.port}") as channel:
        stub = wire.Stub(channel)
        with pytest.raises(errors.TltError) as caught:
            await called(stub, streaming=streaming)
        return caught.value


async def called(stub: Any, *, streaming: bool) -> None:
    with translated():
        if streaming:
            async for _ in stub.Generate(wire.pb.GenerateRequest()):
                pass
        else:
            await stub.GetServerInfo(wire.pb.GetServerInfoRequest())


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("kind", tree(), ids=lambda kind: kind.__name__)
async def test_an_error_arrives_as_it_was_raised(kind: type[errors.TltError], streaming: bool) -> None:
    arrived = await raised_by(kind("what, where and the way out", field="some.field"), streaming=streaming)
    assert type(arrived) is kind
    assert (str(arrived), getattr(arrived, "field")) == ("what, where and the way out", "some.field")  # noqa: B009


def test_every_error_has_a_code_and_a_reason_of_its_own() -> None:
    kinds = tree()
    assert set(kinds) == set(CODES)
    assert len({kind.reason for kind in kinds}) == len(kinds)


async def test_a_defect_says_nothing_of_its_inside() -> None:
    arrived = await raised_by(ValueError("secret"), streaming=False)
    assert type(arrived) is errors.TltError
    assert "secret" not in str(arrived)


@pytest.mark.parametrize("streaming", [False, True])
async def test_bytes_that_are_no_message_are_refused(streaming: bool) -> None:
    service = Service(name=wire.SERVICE_NAME, add=lambda server: wire.add_servicer(Refusing(ValueError()), server))
    async with serving("127.0.0.1:0", service) as server, connect(f"127.0.0.1:{server.port}") as channel:
        path = f"/{wire.SERVICE_NAME}/{'UpdateWeights' if streaming else 'GetServerInfo'}"
        make: Any = channel.stream_unary if streaming else channel.unary_unary
        with pytest.raises(errors.InvalidRequestError, match="cannot be decoded") as caught, translated():
            await make(path)(iter([b"\xff"]) if streaming else b"\xff")
    assert caught.value.field == "request"


async def test_the_retry_delay_arrives() -> None:
    arrived = await raised_by(errors.OverloadedError("full", retry_after_s=2.5), streaming=False)
    assert isinstance(arrived, errors.OverloadedError)
    assert arrived.retry_after_s == 2.5


async def test_health_and_reflection_are_there() -> None:
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    service = Service(name=wire.SERVICE_NAME, add=lambda server: wire.add_servicer(Refusing(ValueError()), server))
    async with serving("127.0.0.1:0", service) as server, connect(f"127.0.0.1:{server.port}") as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        answer = await stub.Check(health_pb2.HealthCheckRequest(service=wire.SERVICE_NAME))
    assert answer.status == health_pb2.HealthCheckResponse.SERVING
