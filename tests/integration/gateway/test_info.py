from tests.fakes.worker import FakeWorker
from tests.integration.gateway.conftest import Start


async def test_the_gateway_says_what_it_serves(start: Start, worker: FakeWorker) -> None:
    async with start(worker) as client:
        info = await client.info()
    assert (info.model, info.vocab_size, info.context_length) == ("fake", 100, 128)
    assert (info.policy_version, info.drafter_version, info.workers, info.queued, info.running) == (0, 0, 1, 0, 0)
    assert info.server_version
