"""Weights from a trainer's process group: a real gloo group, real workers and gateways."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.fakes.broadcaster import Broadcaster, broadcaster
from tests.fakes.machine import free_port
from tests.integration.gateway.conftest import gateway
from tests.integration.gateway.http.conftest import Http
from tests.integration.worker.live_worker import Bench, working
from tlt_common.rpc.addresses import announced_in
from tlt_gateway.config import GatewayConfig

SLOW_S = 120.0
"""Timeout: starting a process that imports torch takes seconds."""

BEFORE = {"embed": torch.zeros(8, 4), "layer.0": torch.zeros(300), "layer.1": torch.zeros(5, dtype=torch.bfloat16)}
AFTER = {name: torch.randn(tensor.shape).to(tensor.dtype) for name, tensor in BEFORE.items()}


def described(*names: str) -> dict[str, Any]:
    return {
        "names": list(names),
        "dtypes": [str(AFTER[name].dtype).removeprefix("torch.") for name in names],
        "shapes": [list(AFTER[name].shape) for name in names],
        "group_name": "weights",
    }


@asynccontextmanager
async def served(
    tmp_path: Path, *workers: str, on_serving: Callable[[str], object] = lambda _address: None
) -> AsyncIterator[Http]:
    """Run a gateway with HTTP; `on_serving` is called with its gRPC address."""
    config = GatewayConfig.model_validate({"workers": workers, "http": {"listen": "127.0.0.1:0"}})
    ports = tmp_path / "ports.json"
    with announced_in(ports):
        async with gateway(config) as endpoint:
            on_serving(endpoint)
            address = json.loads(ports.read_text())["rollout_http"]
            async with httpx.AsyncClient(base_url=f"http://{address}", timeout=SLOW_S) as client:
                yield Http(client=client, address=address)


@asynccontextmanager
async def fleet(tmp_path: Path) -> AsyncIterator[tuple[Http, list[Bench]]]:
    """Run two workers of one model, and a gateway."""
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text(json.dumps({"tie_word_embeddings": True}))
    save_file(BEFORE, model / "model.safetensors")
    save_file({**AFTER, "unknown": torch.zeros(2)}, tmp_path / "after.safetensors")
    async with AsyncExitStack() as stack:
        benches = [
            await stack.enter_async_context(working(Bench(tmp_path / str(index)), model=model, worker_id=f"w{index}"))
            for index in range(2)
        ]
        http = await stack.enter_async_context(served(tmp_path, *(bench.address for bench in benches)))
        while (await http.client.get("/server_info")).json()["num_workers"] < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        yield http, benches


def held(bench: Bench) -> dict[str, torch.Tensor]:
    return load_file(bench.engine.loaded[-1] / "model.safetensors")


def require_after(*benches: Bench) -> None:
    for bench in benches:
        found = held(bench)
        assert found.keys() == AFTER.keys()
        assert all(torch.equal(found[name], AFTER[name]) for name in AFTER)


async def test_a_trainer_broadcasts_to_the_whole_fleet_until_it_dies(tmp_path: Path) -> None:
    async with (
        fleet(tmp_path) as (http, benches),
        broadcaster(tmp_path / "after.safetensors", port=free_port()) as trainer,
    ):
        answer, _ = await asyncio.gather(http.post("/init_weights_update_group", trainer.group), trainer.joined())
        assert answer.json()["success"], answer.text
        await in_several_calls(http, trainer, benches)
        await not_complete(http, trainer)
        await not_fitting(http, trainer)
        await sent(http, trainer, described("embed"))
        calling = asyncio.create_task(http.post("/update_weights_from_distributed", described("layer.0")))
        trainer.process.kill()
        broken = await calling
        assert broken.status_code == 503
        assert "create it again" in broken.json()["message"]
        assert (await http.post("/continue_generation", {})).status_code == 200, "what had arrived is gone"
        gone = await http.post("/update_weights_from_distributed", described("embed"))
        assert gone.status_code == 404
        assert [bench.engine.policy_version for bench in benches] == [2, 2]


async def sent(http: Http, trainer: Broadcaster, body: dict[str, Any]) -> httpx.Response:
    """Announce and broadcast tensors."""
    await trainer.send(body["names"], flat="load_format" in body)
    answer, _ = await asyncio.gather(http.post("/update_weights_from_distributed", body), trainer.sent())
    return answer


async def in_several_calls(http: Http, trainer: Broadcaster, benches: list[Bench]) -> None:
    for version, flat in ((1, False), (2, True)):
        form = {"load_format": "flattened_bucket"} if flat else {}
        for names in (("embed",), ("layer.0", "layer.1")):
            assert all(bench.engine.policy_version == version - 1 for bench in benches)
            answer = await sent(http, trainer, {**described(*names), **form, "weight_version": str(version)})
            assert answer.json()["success"], answer.text
        assert [bench.engine.policy_version for bench in benches] == [version, version]
        require_after(*benches)
    assert (await http.post("/continue_generation", {})).status_code == 200


async def not_complete(http: Http, trainer: Broadcaster) -> None:
    await http.post("/pause_generation", {"mode": "retract"})
    assert (await sent(http, trainer, described("embed"))).status_code == 200
    assert "layer.0" in (await http.refused("/continue_generation", {}))["message"]
    answer = await http.post("/generate", {"input_ids": [4], "sampling_params": {"max_new_tokens": 2}})
    assert answer.json()["meta_info"]["weight_version"] == "2", "generation continues with the previous weights"


async def not_fitting(http: Http, trainer: Broadcaster) -> None:
    body = {"names": ["unknown"], "dtypes": ["float32"], "shapes": [[2]], "group_name": "weights"}
    answer = await sent(http, trainer, body)  # the trainer's side ends, too
    assert answer.status_code == 400
    assert "unknown" in answer.json()["message"]


async def test_a_group_that_nobody_joins_times_out_and_blocks_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tlt_worker.weights.receiving.group.JOIN_S", 1.0)
    async with fleet(tmp_path) as (http, _):
        group = {
            "master_address": "127.0.0.1", "master_port": free_port(), "rank_offset": 1, "world_size": 2,
            "group_name": "weights", "backend": "gloo",
        }  # fmt: skip
        joining = asyncio.create_task(http.post("/init_weights_update_group", group))
        answer = await http.post("/generate", {"input_ids": [4], "sampling_params": {"max_new_tokens": 2}})
        assert answer.status_code == 200
        late = await joining
        assert late.status_code == 503
        assert "did not become complete" in late.json()["message"]
        assert not (await http.post("/destroy_weights_update_group", {"group_name": "weights"})).json()["success"]


def group_of(name: str) -> dict[str, Any]:
    return {
        "master_address": "127.0.0.1", "master_port": free_port(), "rank_offset": 1, "world_size": 2,
        "group_name": name, "backend": "gloo",
    }  # fmt: skip


def ranks() -> list[psutil.Process]:
    """Return the processes that joined a group, or try to."""
    members = [child for child in psutil.Process().children(recursive=True) if "receiving.member" in _command(child)]
    return [member for member in members if member.status() != psutil.STATUS_ZOMBIE]


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


async def test_a_group_joined_again_replaces_the_one_that_is_incomplete(tmp_path: Path) -> None:
    async with fleet(tmp_path) as (http, _):
        first = asyncio.create_task(http.post("/init_weights_update_group", group_of("weights")))
        while not ranks():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        second = asyncio.create_task(http.post("/init_weights_update_group", group_of("weights")))
        replaced = await first
        assert replaced.status_code == 503
        assert "its process ended" in replaced.json()["message"]
        assert len(ranks()) == 1
        second.cancel()


async def test_a_fleet_is_in_so_many_groups_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tlt_worker.weights.receiving.receiver.MAX_GROUPS", 1)
    async with fleet(tmp_path) as (http, _):
        first = asyncio.create_task(http.post("/init_weights_update_group", group_of("one")))
        while not ranks():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        refused = await http.post("/init_weights_update_group", group_of("two"))
        assert refused.status_code == 429
        assert "maximum of 1 groups" in refused.text
        first.cancel()


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"backend": "mpi"}, "backend"),
        ({"master_port": 0}, "master_port"),
        ({"rank_offset": 2}, "rank_offset"),
        ({"world_size": 1}, "world_size"),
        ({"group_name": ""}, "group_name"),
        ({"stream": True}, "stream"),
    ],
)
async def test_a_group_that_cannot_be_joined_is_refused_by_name(
    tmp_path: Path, change: dict[str, Any], field: str
) -> None:
    group = {"master_address": "127.0.0.1", "master_port": 9, "rank_offset": 1, "world_size": 2, "backend": "gloo"}
    async with served(tmp_path) as http:
        assert (await http.refused("/init_weights_update_group", group | change))["param"] == field
