"""`tlt bench weights --drafter`: accept length of the drafter after an update of the policy."""

import asyncio
import json
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from socket import socket

import httpx
import torch
from safetensors.torch import load_file, save_file

from tlt_bench.engines.bench_engine import log
from tlt_bench.engines.prepare import BenchTarget, Prepared, prepared
from tlt_bench.result import Result
from tlt_bench.weights.broadcaster import Broadcaster, broadcaster
from tlt_bench.weights.engine_worker import ARM, engine_worker
from tlt_bench.weights.ways import FILE, WAYS, UpdatingTrainer, disk, group
from tlt_bench.workload import Prompts
from tlt_common.client import Client, SamplingParams
from tlt_common.domain.response import TokenChunk
from tlt_common.rpc.addresses import announced_in
from tlt_gateway.config import GatewayConfig
from tlt_gateway.main import live

COUNT = 8
"""Problems."""
GREEDY = SamplingParams(temperature=0.0, max_new_tokens=96, ignore_eos=True)
CALL_S = 300.0
NOISE = 0.02
"""Relative change of the weights that differ."""
MESSAGE_BYTES = 512 * 2**20


def measure(target: BenchTarget) -> Result:
    """
    Run the benchmark and return its figures. Progress goes to stderr.

    Raises:
        ConfigError: The target has no drafter.
    """
    target.require_drafter(ARM)
    with tempfile.TemporaryDirectory(prefix="tlt-bench-") as scratch:
        figures = asyncio.run(_measure(target, Path(scratch)))
    return Result(
        name="weights_drafter",
        figures=figures,
        spread={},
        repeats=1,
        notes={
            "accept_kept": "tokens per request and round after an update with the weights that are served, divided by "
            "those before it; one way of updating per figure",
            "workload": f"{COUNT} problems, {GREEDY.max_new_tokens} greedy tokens each, {ARM} in every round",
            "arrived_gap": "largest difference between logprobs after an update with other weights through the process "
            "group and after one from disk; arrived_change: between those weights and the ones before",
        },
    )


async def _measure(target: BenchTarget, scratch: Path) -> dict[str, float]:
    figures = dict[str, float]()
    async with AsyncExitStack() as parts:
        ready = await prepared(target, scratch)
        prompts = ready.task.hard(COUNT, seed=5)
        same, other = await asyncio.to_thread(_checkpoints, ready.model, scratch)
        trainer = await parts.enter_async_context(_trainer(ready, same, scratch))
        moved = await parts.enter_async_context(_sender(other, trainer, "moved"))
        version = 0
        figures["accept_length"] = before = accept_length(await _responses(trainer, prompts, version))
        for name, way in WAYS.items():
            version += 1
            await way(trainer, version)
            after = accept_length(await _responses(trainer, prompts, version))
            figures[f"accept_kept_{name}"] = after / before
            log(f"{name}: accept length {after:.4f}, before {before:.4f}")
            before = after
        found = [await _responses(trainer, prompts, version)]
        for way in (group, disk):
            version += 1
            await way(moved, version)
            found.append(await _responses(trainer, prompts, version))
        figures["arrived_gap"] = _largest_gap(found[1], found[2])
        figures["arrived_change"] = _largest_gap(found[0], found[1])
    return figures


def accept_length(responses: list[TokenChunk]) -> float:
    """Return tokens per request and round."""
    stats = [response.stats for response in responses if response.stats is not None]
    return sum(each.completion_tokens for each in stats) / sum(each.rounds for each in stats)


def _largest_gap(one: list[TokenChunk], two: list[TokenChunk]) -> float:
    """Return the largest difference of the first tokens' logprobs. Later tokens may differ."""
    return max(abs(a.logprobs[0] - b.logprobs[0]) for a, b in zip(one, two, strict=True))


def _checkpoints(model: Path, scratch: Path) -> tuple[Path, Path]:
    """Write the model twice: unchanged, and with noise."""
    same, other = scratch / "same", scratch / "other"
    for directory in (same, other):
        shutil.copytree(model, directory)
    torch.manual_seed(0)
    state = load_file(other / FILE)
    save_file({name: tensor * (1 + NOISE * torch.randn_like(tensor)) for name, tensor in state.items()}, other / FILE)
    return same, other


async def _responses(trainer: UpdatingTrainer, prompts: Prompts, version: int) -> list[TokenChunk]:
    groups = await trainer.client.batch(prompts, 1, GREEDY)
    responses = [response for (response,) in groups]
    served = {found for response in responses for found in response.policy_versions}
    if served != {version}:
        raise RuntimeError(f"responses are of the versions {served}, not of {version}")
    return responses


@asynccontextmanager
async def _trainer(ready: Prepared, checkpoint: Path, scratch: Path) -> AsyncIterator[UpdatingTrainer]:
    """Run a worker and a gateway; yield a trainer in front of them."""
    ports = scratch / "ports.json"
    run_dir = scratch / "run"
    run_dir.mkdir()
    assert ready.drafter is not None  # noqa: S101 - required before
    async with AsyncExitStack() as parts:
        worker = await parts.enter_async_context(engine_worker(checkpoint, ready.drafter, run_dir))
        config = GatewayConfig.model_validate(
            {
                "listen": "127.0.0.1:0",
                "workers": (worker,),
                "http": {"listen": "127.0.0.1:0"},
                "max_message_bytes": MESSAGE_BYTES,
            }
        )
        address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        tasks = await parts.enter_async_context(asyncio.TaskGroup())
        with announced_in(ports):
            serving = tasks.create_task(live(config, on_serving=address.set_result))
            client = await parts.enter_async_context(Client(await address))
            await client.wait_ready(CALL_S)
            url = "http://" + json.loads(await asyncio.to_thread(ports.read_text))["rollout_http"]
            http = await parts.enter_async_context(httpx.AsyncClient(base_url=url, timeout=CALL_S, trust_env=False))
            async with _joined(checkpoint, http, "same") as sender:
                yield UpdatingTrainer(client=client, http=http, broadcaster=sender, checkpoint=checkpoint)
            serving.cancel()


@asynccontextmanager
async def _sender(checkpoint: Path, trainer: UpdatingTrainer, name: str) -> AsyncIterator[UpdatingTrainer]:
    """Yield a trainer of another checkpoint, with its own group."""
    async with _joined(checkpoint, trainer.http, name) as sender:
        yield UpdatingTrainer(client=trainer.client, http=trainer.http, broadcaster=sender, checkpoint=checkpoint)


@asynccontextmanager
async def _joined(checkpoint: Path, http: httpx.AsyncClient, name: str) -> AsyncIterator[Broadcaster]:
    with socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
    async with broadcaster(checkpoint / FILE, port=port, name=name) as sender:
        async with asyncio.timeout(CALL_S):
            await asyncio.gather(_init(http, sender), sender.joined())
        yield sender


async def _init(http: httpx.AsyncClient, sender: Broadcaster) -> None:
    (await http.post("/init_weights_update_group", json=sender.group)).raise_for_status()
