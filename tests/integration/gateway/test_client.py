import asyncio
import threading
from collections.abc import Iterator

import pytest
import torch

from tests.fakes.worker import FakeWorker
from tests.integration.gateway.conftest import Start
from tests.integration.gateway.thread import Endpoint, endpoint
from tlt_common.client import BlockingClient, Client, FinishReason, Sample, SamplingParams
from tlt_common.errors import InvalidRequestError, UnavailableError

EIGHT = SamplingParams(max_new_tokens=8)


@pytest.fixture
def served() -> Iterator[Endpoint]:
    with endpoint() as running:
        yield running


@pytest.fixture
def client(served: Endpoint) -> Iterator[BlockingClient]:
    with BlockingClient(served.address) as client:
        client.wait_ready(10, workers=2)
        yield client


def test_the_blocking_client_does_what_the_other_does(client: BlockingClient, served: Endpoint) -> None:
    assert client.generate([5], EIGHT).token_ids == tuple(range(6, 14))
    assert [token for chunk in client.stream([5], EIGHT) for token in chunk.token_ids] == list(range(6, 14))
    progress: list[tuple[int, int, int]] = []

    def on_progress(sample: Sample) -> None:
        progress.append((sample.finished_count, sample.total_count, threading.get_ident()))

    responses = client.batch([[1], [2], [3]], 2, EIGHT, on_progress=on_progress)
    assert [[response.token_ids[0] for response in samples] for samples in responses] == [[2, 2], [3, 3], [4, 4]]
    assert progress == [(count, 6, threading.get_ident()) for count in range(1, 7)]
    assert client.publish_weights(1, {"w": torch.ones(3)}).workers == 2
    assert client.info().policy_version == 1
    assert client.abort(everything=True) == 0
    assert [fake.policy_version for fake in served.workers] == [1, 1]


def test_a_call_is_submitted_from_any_event_loop(client: BlockingClient) -> None:
    async def answered() -> tuple[int, ...]:
        return (await asyncio.wrap_future(client.submit(lambda inner: inner.generate([5], EIGHT)))).token_ids

    assert [asyncio.run(answered()) for _ in range(2)] == [tuple(range(6, 14))] * 2


def test_the_blocking_client_raises_our_errors(client: BlockingClient) -> None:
    with pytest.raises(InvalidRequestError, match="is empty"):
        client.generate([])
    with pytest.raises(InvalidRequestError, match="samples_per_prompt"):
        client.batch([[1]], 0)


def test_leaving_a_blocking_batch_aborts_it(client: BlockingClient, served: Endpoint) -> None:
    class StopError(Exception):
        """An error that a user's callback may raise, like KeyboardInterrupt on Ctrl-C."""

    def stop(sample: Sample) -> None:
        served.gate(open_=False)
        raise StopError

    with pytest.raises(StopError):
        client.batch([[1]] * 4, 4, SamplingParams(max_new_tokens=100, stop_token_ids=(3,)), on_progress=stop)
    while client.info().running:
        pass
    served.gate(open_=True)
    assert client.generate([1], EIGHT).finish_reason is FinishReason.LENGTH


def test_a_blocking_client_closes_once_and_for_all(served: Endpoint) -> None:
    before = set(threading.enumerate())
    client = BlockingClient(served.address)
    (own,) = [thread for thread in set(threading.enumerate()) - before if thread.name == "tlt-client"]
    client.wait_ready(10)
    client.close()
    client.close()
    assert not own.is_alive()


async def test_waiting_for_a_gateway_that_never_comes_says_where_it_was_looked_for() -> None:
    async with Client("127.0.0.1:1") as client:
        with pytest.raises(UnavailableError, match=r"after 0\.3 s no gateway is reachable at 127\.0\.0\.1:1"):
            await client.wait_ready(0.3)


async def test_waiting_for_more_workers_than_there_are_says_how_many_there_are(
    start: Start, worker: FakeWorker
) -> None:
    async with start(worker) as client:
        with pytest.raises(UnavailableError, match="1 of 2 workers accept requests"):
            await client.wait_ready(0.3, workers=2)


async def test_questions_are_asked_again_while_the_gateway_restarts(start: Start, worker: FakeWorker) -> None:
    async with start(worker) as first:
        address = first.endpoint
    async with Client(address) as client, asyncio.TaskGroup() as group:
        asked = group.create_task(client.info())
        async with start(worker, listen=address):
            assert (await asked).server_version


async def test_a_deadline_ends_a_response_and_frees_the_worker(start: Start, worker: FakeWorker) -> None:
    worker.free_tokens = 1
    worker.gate.clear()
    async with start(worker) as client:
        with pytest.raises(UnavailableError):
            await client.generate([1], EIGHT, timeout_s=0.2)
        await worker.until(running=0)
        assert len(worker.hung_up) == 1
