"""The whole suite under load while its processes are killed one by one: rollouts continue, processes restart."""

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
import torch
from safetensors.torch import load_file, save_file

from tests.fakes.broadcaster import broadcaster
from tests.fakes.machine import free_port
from tests.integration.up.running import COME_BACK_S, LOOK_S, fleet, pids, serving, until
from tlt_common.client import Client
from tlt_common.domain.batch import Batch
from tlt_common.domain.ids import RequestId
from tlt_common.domain.prompt import Prompt, SamplingParams
from tlt_common.domain.response import TokenChunk
from tlt_common.rpc.channel import connect
from tlt_common.rpc.errors import translated
from tlt_common.wire import rollout
from tlt_local.configuration.config import StackConfig
from tlt_local.stack import Stack

pytestmark = [pytest.mark.stack, pytest.mark.timeout(1200), pytest.mark.asyncio(loop_scope="module")]

MODEL = Path(__file__).parents[3] / "demos" / "countdown" / "countdown" / "checkpoint"


async def answers(stack: Stack, count: int = 8) -> list[TokenChunk]:
    """Generate responses through the gateway, as a trainer does."""
    prompts = [
        Prompt(
            request_id=RequestId(f"p{i}"),
            token_ids=(1, 5 + i),
            sampling=SamplingParams(max_new_tokens=40, temperature=0.0),
        )
        for i in range(count)
    ]
    async with connect(stack.endpoint) as channel:
        with translated():
            call = rollout.Stub(channel).GenerateBatch(
                rollout.batch_to_pb(Batch(prompts=prompts, samples_per_prompt=1)), timeout=120
            )
            return [rollout.sample_from_pb(message).response async for message in call]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack() -> AsyncIterator[Stack]:
    with pytest.MonkeyPatch.context() as environment:  # of a company, whose proxy does not know this machine
        for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
            environment.setenv(name, "http://127.0.0.1:9")
        for name in ("no_proxy", "NO_PROXY"):
            environment.delenv(name, raising=False)
        async with Stack(StackConfig(model=MODEL, workers=2), restarts=True) as running:
            yield running
            assert not [ended for ended in running.ended if ended.failed], "a service ended that no test had killed"


async def test_both_workers_answer_and_are_named_by_their_rank(stack: Stack) -> None:
    chunks = await answers(stack)
    assert {chunk.stats.worker_id for chunk in chunks if chunk.stats} == {"worker-0", "worker-1"}


async def test_workers_without_requests_are_lent(stack: Stack) -> None:
    await until(stack, lambda seen: all(worker.status.epoch for worker in seen.workers))
    assert len(await answers(stack)) == 8


@pytest.mark.parametrize("name", ["coordinator", "cache", "tuner"])
async def test_rollouts_go_on_without_a_service_and_it_comes_back(stack: Stack, name: str) -> None:
    (pid,) = pids(stack, "\0serve\0", f"\0{name}\0")
    os.kill(pid, signal.SIGKILL)
    assert len(await answers(stack)) == 8
    async with asyncio.timeout(COME_BACK_S):
        while pids(stack, "\0serve\0", f"\0{name}\0") in ([], [pid]):  # noqa: ASYNC110 - started by another process
            await asyncio.sleep(LOOK_S)
    await until(stack, serving(2))


async def test_rollouts_go_on_without_a_trainer_and_it_comes_back(stack: Stack) -> None:
    for pid in pids(stack, "\0serve\0trainer\0"):
        os.kill(pid, signal.SIGKILL)
    assert len(await answers(stack)) == 8
    await until(stack, lambda seen: all(worker.status.trainer_ready for worker in seen.workers))


async def test_a_worker_whose_engine_dies_is_replaced_under_its_name_and_catches_up(stack: Stack) -> None:
    async with Client(stack.endpoint) as client:
        version = (await client.info()).policy_version + 1
        await client.publish_weights(version=version, weights=MODEL)
    before = {worker.hello.worker_id: worker.hello.address for worker in (await fleet(stack)).workers}
    os.kill(pids(stack, "sglang::scheduler")[0], signal.SIGKILL)
    assert len(await answers(stack)) == 8
    await until(stack, serving(1))
    await until(stack, serving(2))
    after = await until(stack, lambda seen: all(worker.status.policy_version == version for worker in seen.workers))
    assert {worker.hello.worker_id for worker in after.workers} == set(before)
    chunks = await answers(stack)
    assert {served for chunk in chunks for served in chunk.policy_versions} == {version}
    assert {chunk.stats.worker_id for chunk in chunks if chunk.stats} == set(before)


async def test_weights_that_a_trainer_broadcasts_arrive_in_all_engines(stack: Stack, tmp_path: Path) -> None:
    state = load_file(MODEL / "model.safetensors")
    torch.manual_seed(0)
    state = {name: tensor * (1 + 0.05 * torch.randn(tensor.shape)).to(tensor.dtype) for name, tensor in state.items()}
    save_file(state, tmp_path / "model.safetensors")
    async with (
        Client(stack.endpoint) as client,
        httpx.AsyncClient(base_url=stack.http_url, timeout=COME_BACK_S, trust_env=False) as http,
        broadcaster(tmp_path / "model.safetensors", port=free_port()) as trainer,
    ):
        before = first_logprobs(await answers(stack))
        await asyncio.gather(post(http, "/init_weights_update_group", trainer.group), trainer.joined())
        await trainer.send(state)
        tensors = {
            "names": list(state),
            "dtypes": [str(tensor.dtype).removeprefix("torch.") for tensor in state.values()],
            "shapes": [list(tensor.shape) for tensor in state.values()],
            "group_name": "weights",
        }
        await asyncio.gather(post(http, "/update_weights_from_distributed", tensors), trainer.sent())
        broadcast = first_logprobs(await answers(stack))
        version = (await client.info()).policy_version
        shutil.copy(MODEL / "config.json", tmp_path)
        await client.publish_weights(version=version + 1, weights=tmp_path)
        assert first_logprobs(await answers(stack)) == pytest.approx(broadcast, abs=1e-4)
        assert before != pytest.approx(broadcast, abs=1e-3)


async def post(http: httpx.AsyncClient, path: str, body: object) -> None:
    (await http.post(path, json=body)).raise_for_status()


def first_logprobs(chunks: list[TokenChunk]) -> dict[str, float]:
    """Return the logprob of the first token, which is greedy, by request."""
    return {chunk.request_id: chunk.logprobs[0] for chunk in chunks}
