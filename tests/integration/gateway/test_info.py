from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from tests.fakes.worker import FakeWorker
from tests.integration.gateway.conftest import Start
from tlt_common.rpc.channel import connect
from tlt_common.wire import rollout as wire


async def test_the_gateway_says_what_it_serves(start: Start, worker: FakeWorker) -> None:
    async with start(worker) as client:
        info = await client.info()
    assert (info.model, info.vocab_size, info.context_length) == ("fake", 100, 128)
    assert (info.policy_version, info.drafter_version, info.workers, info.queued, info.running) == (0, 0, 1, 0, 0)
    assert info.server_version


async def test_health_and_reflection_are_there(start: Start) -> None:
    async with start() as client, connect(client.endpoint) as channel:
        health = await health_pb2_grpc.HealthStub(channel).Check(
            health_pb2.HealthCheckRequest(service=wire.SERVICE_NAME)
        )
        assert health.status == health_pb2.HealthCheckResponse.SERVING
        ask = iter([reflection_pb2.ServerReflectionRequest(list_services="")])
        replies = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(ask)
        names = [service.name async for reply in replies for service in reply.list_services_response.service]
        assert "tlt.rollout.v1.RolloutService" in names
