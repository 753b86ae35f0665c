"""Changes of weights over HTTP: real workers and gateways, scripted engines that hold files to the real rule."""

import base64
import pickle
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from tests.integration.gateway.http.conftest import Http
from tests.integration.worker.live_worker import Bench, eventually, working
from tests.integration.worker.test_deltas import EMBEDDING, HEAD, START, require, written
from tests.integration.worker.test_receiving import served
from tlt_worker.engine.checkpoints.policy import ModelTensors

NORM = "model.norm.weight"
DISK, TENSOR, END = "/update_weights_from_disk", "/update_weights_from_tensor", "/end_weight_update"


@asynccontextmanager
async def fleet(tmp_path: Path) -> AsyncIterator[tuple[Http, list[Bench]]]:
    """Run two workers and a gateway."""
    model = written(tmp_path / "model", START)
    async with AsyncExitStack() as stack:
        benches = [Bench(tmp_path / str(index)) for index in range(2)]
        for index, bench in enumerate(benches):
            bench.engine.check = ModelTensors.of(model).check
            await stack.enter_async_context(working(bench, model=model, worker_id=f"w{index}"))
        http = await stack.enter_async_context(served(tmp_path, *(bench.address for bench in benches)))
        await until_serving(http, 2)
        yield http, benches


async def until_serving(http: Http, workers: int) -> None:
    while (await http.client.get("/server_info")).json()["num_workers"] < workers:  # noqa: ASYNC110
        pass


def changed(directory: Path, tensors: dict[str, torch.Tensor]) -> str:
    directory.mkdir()
    save_file(tensors, directory / "model.safetensors")
    return str(directory)


def pickled(tensors: dict[str, torch.Tensor]) -> dict[str, Any]:
    return {"serialized_named_tensors": [base64.b64encode(pickle.dumps(list(tensors.items()))).decode()]}


def elements(name: str, *indices: int) -> dict[str, torch.Tensor]:
    return {
        f"{name}:indices": torch.tensor(indices),
        f"{name}:values": torch.full((len(indices),), 7.0).to(START[name].dtype),
    }


async def test_a_directory_may_have_only_what_changed(tmp_path: Path) -> None:
    async with fleet(tmp_path) as (http, benches):
        state = {name: tensor.clone() for name, tensor in START.items()}
        state[NORM] = torch.zeros(4).to(torch.bfloat16)
        first = changed(tmp_path / "first", {NORM: state[NORM]})
        answer = await http.post(DISK, {"model_path": first, "base_version": 0})
        assert answer.json()["message"] == "version 1 on 2 workers", answer.text

        (tmp_path / "first" / "model.safetensors").unlink()  # nobody reads it again
        state[HEAD].view(-1)[[5, 2]] = 7.0
        second = changed(tmp_path / "second", elements(HEAD, 5, 2))
        answer = await http.post(DISK, {"model_path": second, "base_version": "1", "weight_version": "9"})
        assert answer.json()["success"], answer.text
        for bench in benches:
            require(bench, state)
        await late(tmp_path, benches[0], state)


async def late(tmp_path: Path, bench: Bench, state: dict[str, torch.Tensor]) -> None:
    """A worker that joins at another gateway gets whole weights."""
    joining = Bench(tmp_path / "late")
    joining.engine.check = bench.engine.check
    other = tmp_path / "other"
    other.mkdir()
    async with (
        working(joining, model=tmp_path / "model", worker_id="late"),
        served(other, bench.address, joining.address) as http,
    ):
        await until_serving(http, 2)
        await eventually(lambda: joining.engine.policy_version == 9)
        require(joining, state)


async def test_a_directory_of_changes_is_installed_as_a_whole_or_refused(tmp_path: Path) -> None:
    async with fleet(tmp_path) as (http, benches):
        norm = changed(tmp_path / "norm", {NORM: START[NORM]})
        assert (await http.post(DISK, {"model_path": norm, "base_version": 0, "weight_version": 3})).json()["success"]
        for base in (0, 2, 4, "0"):
            answer = await http.post(DISK, {"model_path": norm, "base_version": base, "weight_version": 5})
            assert answer.status_code == 409
            assert answer.json()["error"]["param"] == "base_version"
            assert f"base_version is {base}; served: 3" in answer.json()["error"]["message"]
        odd = changed(tmp_path / "odd", {NORM: START[NORM], "unheard.of": torch.ones(1)})
        wide = changed(tmp_path / "wide", {EMBEDDING: torch.ones(64, 5)})
        for path, said in ((odd, "unheard.of is not in the served"), (wide, "has shape"), ("/nowhere", "nowhere")):
            answer = await http.post(DISK, {"model_path": path, "base_version": 3})
            assert answer.status_code == 400
            assert said in answer.json()["message"]
        whole = await http.post(DISK, {"model_path": norm, "base_version": None})
        assert whole.status_code == 400, "null is a whole update"
        assert "missing" in whole.json()["message"]
        older = await http.post(DISK, {"model_path": norm, "base_version": 3, "weight_version": 3})
        assert older.status_code == 400
        assert [bench.engine.policy_version for bench in benches] == [3, 3]
        assert [len(bench.engine.loaded) for bench in benches] == [1, 1]
