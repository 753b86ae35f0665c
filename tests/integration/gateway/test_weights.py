import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from tests.fakes.spools import disks_idle, spools_in
from tests.fakes.worker import FakeWorker
from tests.integration.gateway.conftest import Start
from tlt_common.client import Client, SamplingParams
from tlt_common.client.tensors import stream
from tlt_common.domain.ids import PolicyVersion
from tlt_common.domain.weights import WeightsUpdate
from tlt_common.errors import (
    EngineError,
    InvalidRequestError,
    UnavailableError,
    WeightsError,
)
from tlt_common.rpc.channel import connect
from tlt_common.rpc.errors import translated
from tlt_common.wire import rollout as wire

EIGHT = SamplingParams(max_new_tokens=8)
Pair = tuple[FakeWorker, FakeWorker]
STATE = {"a.weight": torch.arange(6, dtype=torch.bfloat16).reshape(2, 3), "b": torch.ones(4)}
OTHER = {**STATE, "b": torch.zeros(4)}
BYTES = {"a.weight": STATE["a.weight"].view(torch.uint8).numpy().tobytes(), "b": STATE["b"].numpy().tobytes()}


@pytest.mark.parametrize("shared", [False, True])
async def test_a_streamed_state_dict_reaches_all_workers(start: Start, pair: Pair, *, shared: bool) -> None:
    async with start(*pair, spool_shared=shared) as client:
        result = await client.publish_weights(3, STATE)
        assert (result.version, result.workers) == (3, 2)
        assert (await client.info()).policy_version == 3
        response = await client.generate([1], EIGHT, policy_version=3)
        assert set(response.policy_versions) == {3}
    for fake in pair:
        assert (fake.policy_version, fake.weights) == (3, BYTES)


async def test_a_directory_is_passed_on_as_it_is(start: Start, pair: Pair, tmp_path: Path) -> None:
    save_file({"w": np.arange(3, dtype=np.float32)}, tmp_path / "model.safetensors")
    async with start(*pair) as client:
        await client.publish_weights(1, tmp_path)
        await client.publish_weights(2, f"file://{tmp_path}")
    assert [fake.updates for fake in pair] == [[1, 2], [1, 2]]
    assert pair[0].weights == {"w": np.arange(3, dtype=np.float32).tobytes()}


async def test_requests_in_flight_go_on_over_an_update(start: Start, worker: FakeWorker) -> None:
    worker.free_tokens = 3
    worker.gate.clear()
    async with start(worker) as client, asyncio.TaskGroup() as group:
        asked = group.create_task(client.generate([1], EIGHT))
        await worker.until(running=1)
        await client.publish_weights(1, STATE)
        worker.gate.set()
        response = await asked
    assert response.token_ids == tuple(range(2, 10))
    assert response.policy_versions == tuple(sorted(response.policy_versions))
    assert response.policy_versions[-1] == 1


async def test_one_worker_that_refuses_leaves_all_as_they_were(start: Start, pair: Pair) -> None:
    pair[1].stage_error = WeightsError("tensor 'b' is [4], the model has [5]", field="tensor")
    async with start(*pair) as client:
        with pytest.raises(WeightsError, match=r"worker w1: tensor 'b' is \[4\]") as refused:
            await client.publish_weights(3, STATE)
        assert refused.value.field == "tensor"
        assert (await client.info()).policy_version == 0
        for fake in pair:
            assert (fake.staged, fake.updates, fake.policy_version) == (None, [], 0)
        assert set((await client.generate([1], EIGHT)).policy_versions) == {0}
        pair[1].stage_error = None
        assert (await client.publish_weights(3, STATE)).workers == 2


async def test_a_worker_lost_while_staging_does_not_hold_the_update_up(start: Start, pair: Pair) -> None:
    pair[1].stage_error = UnavailableError("gone")
    async with start(*pair) as client:
        assert (await client.publish_weights(1, STATE)).workers == 1
        pair[1].stage_error = None
        await client.wait_ready(10, workers=2)
    assert [fake.policy_version for fake in pair] == [1, 1]


@pytest.mark.parametrize("error", [UnavailableError("gone"), EngineError("it broke")])
async def test_an_update_stands_without_a_worker_that_failed_to_switch(
    start: Start, pair: Pair, error: UnavailableError | EngineError
) -> None:
    pair[1].commit_error = error
    async with start(*pair) as client:
        assert (await client.publish_weights(1, STATE)).workers == 1
        assert (await client.info()).policy_version == 1
        responses = await client.batch([[1]], 4, EIGHT)
        assert {version for response in responses[0] for version in response.policy_versions} == {1}
        assert not pair[1].prompts
        pair[1].commit_error = None
        await client.wait_ready(10, workers=2)
    assert pair[1].updates == [1]


async def test_an_update_that_no_worker_takes_is_an_error(start: Start, worker: FakeWorker) -> None:
    worker.commit_error = EngineError("it broke")
    async with start(worker) as client:
        with pytest.raises(EngineError, match="worker w0: it broke"):
            await client.publish_weights(1, STATE)
        assert (await client.info()).policy_version == 0


async def test_a_late_worker_gets_the_last_update_before_its_first_request(start: Start, pair: Pair) -> None:
    first, late = pair
    await late.kill()
    async with start(first, late, workers=1) as client:
        await client.publish_weights(1, STATE)
        await client.publish_weights(2, {"b": STATE["b"]})
        async with late:
            await client.wait_ready(10, workers=2)
            assert (late.updates, late.weights) == ([2], {"b": BYTES["b"]})
            await client.batch([[1]], 6, EIGHT)
            assert late.prompts


async def test_a_worker_that_restarts_at_the_old_version_is_brought_forward(start: Start, pair: Pair) -> None:
    restarts = pair[1]
    async with start(*pair) as client:
        await client.publish_weights(1, STATE)
        await restarts.kill()
        restarts.policy_version, restarts.updates = type(restarts.policy_version)(0), []
        await client.batch([[1]], 4, EIGHT)
        async with restarts:
            await client.wait_ready(10, workers=2)
            assert restarts.updates == [1]
            responses = await client.batch([[1]], 8, EIGHT)
    assert {version for response in responses[0] for version in response.policy_versions} == {1}


async def test_a_gateway_that_restarts_finds_the_version_its_workers_serve(start: Start, pair: Pair) -> None:
    async with start(*pair) as client:
        await client.publish_weights(4, STATE)
    async with start(*pair) as client:
        assert (await client.info()).policy_version == 4
        with pytest.raises(InvalidRequestError, match="above 4"):
            await client.publish_weights(4, OTHER)
        assert (await client.publish_weights(5, STATE)).workers == 2


@pytest.mark.parametrize("version", [-1, 0, 3])
async def test_versions_only_rise(start: Start, worker: FakeWorker, version: int) -> None:
    async with start(worker) as client:
        await client.publish_weights(3, STATE)
        with pytest.raises(InvalidRequestError, match=f"is {version}; accepted: above 3") as refused:
            await client.publish_weights(version, OTHER)
        assert refused.value.field == "policy_version"
        assert worker.updates == [3]


async def test_without_workers_there_is_nothing_to_update(start: Start) -> None:
    async with start() as client:
        with pytest.raises(UnavailableError, match="no worker is available for the weights update"):
            await client.publish_weights(1, STATE, timeout_s=1)


async def test_no_file_is_left_of_replaced_weights(start: Start, worker: FakeWorker, tmp_path: Path) -> None:
    async with start(worker, spool_dir=tmp_path) as client:
        for version in range(1, 6):
            await client.publish_weights(version, STATE)
            assert await count(tmp_path) <= 2
        with pytest.raises(InvalidRequestError):
            await client.publish_weights(1, STATE)
        worker.stage_error = WeightsError("no")
        with pytest.raises(WeightsError):
            await client.publish_weights(6, STATE)
        assert await count(tmp_path) == 1, "an update begins by making room"
    assert await count(tmp_path) == 1  # the served ones, for the next gateway


async def count(directory: Path) -> int:
    await disks_idle()
    return len(spools_in(directory))


def header(version: int = 1, uri: str | None = None) -> wire.pb.UpdateWeightsRequest:
    message = wire.pb.UpdateWeightsRequest()
    message.header.policy_version = version
    if uri is not None:
        message.header.source.uri = uri
    return message


def tensor(data: bytes = b"12345678", *, dtype: str = "F32", offset: int = 0) -> wire.pb.UpdateWeightsRequest:
    message = wire.pb.UpdateWeightsRequest()
    message.tensor.name, message.tensor.dtype, message.tensor.data = "w", dtype, data
    message.tensor.shape.append(2)
    message.tensor.offset_bytes = offset
    return message


@pytest.mark.parametrize(
    ("messages", "kind", "field", "message"),
    [
        ([], InvalidRequestError, "header", "the first message is not a header"),
        ([tensor()], InvalidRequestError, "header", "the first message is not a header"),
        ([wire.pb.UpdateWeightsRequest()], InvalidRequestError, "part", "not set"),
        ([header(), header()], InvalidRequestError, "header", "the stream has a second header"),
        ([header(uri="/x"), tensor()], InvalidRequestError, "header.source", "send either a source or tensors"),
        ([header(uri="")], InvalidRequestError, "header.source.uri", "is empty"),
        ([header()], WeightsError, "tensor", "no tensor"),
        ([header(), tensor(b"1234")], WeightsError, "tensor.data", "its last 4 bytes are missing"),
        ([header(), tensor(b"123456789")], WeightsError, "tensor", "more than the 8 bytes"),
        ([header(), tensor(b"1234", offset=4)], WeightsError, "tensor", "continues at byte 4; accepted: 0"),
        ([header(), tensor(dtype="I64")], WeightsError, "tensor", "accepted: .'BF16', 'F16', 'F32'"),
    ],
)
async def test_a_stream_that_contradicts_itself_is_refused(
    start: Start,
    worker: FakeWorker,
    messages: list[wire.pb.UpdateWeightsRequest],
    kind: type[InvalidRequestError | WeightsError],
    field: str,
    message: str,
) -> None:
    async def parts() -> AsyncIterator[wire.pb.UpdateWeightsRequest]:
        for part in messages:
            yield part

    async with start(worker) as client, connect(client.endpoint) as channel:
        with pytest.raises(kind, match=message) as refused, translated():
            await wire.Stub(channel).UpdateWeights(parts())
        assert refused.value.field == field
        assert worker.updates == []
        await ready_for_more(client)
        assert worker.weights == BYTES


async def ready_for_more(client: Client) -> None:
    assert (await client.publish_weights(1, STATE)).workers == 1


@pytest.mark.parametrize("index", [0, 1])
async def test_a_tensor_that_cannot_be_sent_is_refused_by_name(start: Start, worker: FakeWorker, index: int) -> None:
    state: dict[str, Any] = {"a": torch.ones(4), "b": torch.ones(4)}
    name = list(state)[index]
    state[name] = state[name].double()
    async with start(worker) as client:
        with pytest.raises(
            InvalidRequestError, match=rf"weights\['{name}'\] has dtype torch.float64; accepted: bfloat16"
        ):
            await client.publish_weights(1, state)
        await client.publish_weights(1, STATE)
    assert worker.updates == [1]


async def test_weights_that_the_volume_has_no_room_for_are_refused_unsent(
    start: Start, worker: FakeWorker, tmp_path: Path
) -> None:
    async with start(worker, spool_dir=tmp_path, spool_bytes=2 * 2**20) as client:
        for announced in (True, False):
            with pytest.raises(WeightsError, match=r"2000000 bytes; the maximum is .*1048576"):
                await _sent(client, torch.zeros(500_000), announced=announced)
            async with asyncio.timeout(10):
                while await count(tmp_path):  # noqa: ASYNC110 - it is deleted after the answer
                    await asyncio.sleep(0.01)
        await client.publish_weights(1, STATE)
    assert worker.updates == [1]


async def _sent(client: Client, tensor: torch.Tensor, *, announced: bool) -> None:
    if announced:
        await client.publish_weights(1, {"a": tensor})
        return

    async def messages() -> AsyncIterator[wire.pb.UpdateWeightsRequest]:
        yield wire.update_to_pb(WeightsUpdate(version=PolicyVersion(1), uri=None))
        for chunk in stream({"a": tensor}):
            yield wire.update_to_pb(chunk)

    async with connect(client.endpoint) as channel:
        with translated():
            await wire.Stub(channel).UpdateWeights(messages())
