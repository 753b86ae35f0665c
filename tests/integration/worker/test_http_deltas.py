"""Changes of weights over HTTP: real workers and gateways, scripted engines that hold files to the real rule."""

import asyncio
import base64
import pickle
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import torch
from fsspec.implementations.memory import MemoryFileSystem
from safetensors.torch import save, save_file

from tests.fakes.engine import FakeEngine
from tests.fakes.eventually import eventually
from tests.integration.gateway.http.conftest import Http
from tests.integration.worker.live_worker import Bench, working
from tests.integration.worker.test_deltas import EMBEDDING, HEAD, START, require, written
from tests.integration.worker.test_receiving import served
from tlt_worker.checkpoints.policy import ModelTensors

NORM = "model.norm.weight"
DISK, TENSOR, END = "/update_weights_from_disk", "/update_weights_from_tensor", "/end_weight_update"


@asynccontextmanager
async def fleet(tmp_path: Path, *engines: FakeEngine, **settings: Any) -> AsyncIterator[tuple[Http, list[Bench]]]:
    """Run two workers and a gateway."""
    model = written(tmp_path / "model", START)
    async with AsyncExitStack() as stack:
        benches = [Bench(tmp_path / str(index), engine) for index, engine in enumerate(engines or two_engines())]
        for index, bench in enumerate(benches):
            bench.engine.check = ModelTensors.of(model).check
            await stack.enter_async_context(working(bench, model=model, worker_id=f"w{index}", **settings))
        http = await stack.enter_async_context(served(tmp_path, *(bench.address for bench in benches)))
        await until_serving(http, len(benches))
        yield http, benches


def paths_in(directory: Path) -> list[Path]:
    return list(directory.rglob("*"))


def two_engines() -> tuple[FakeEngine, FakeEngine]:
    return FakeEngine(), FakeEngine()


async def until_serving(http: Http, workers: int) -> None:
    while (await http.client.get("/server_info")).json()["num_workers"] < workers:
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


async def test_changes_may_be_in_an_object_store(tmp_path: Path) -> None:
    async with fleet(tmp_path, sources=["memory://"]) as (http, benches):
        state = {**START, NORM: torch.zeros(4).to(torch.bfloat16)}
        store, url = MemoryFileSystem(), f"memory://{tmp_path.name}/8"
        store.pipe(f"/{tmp_path.name}/8/model.safetensors", save({NORM: state[NORM]}))
        answer = await http.post(DISK, {"model_path": url, "base_version": 0})
        assert answer.json()["success"], answer.text
        store.rm(f"/{tmp_path.name}", recursive=True)
        for bench in benches:
            require(bench, state)
        refused = await http.post(DISK, {"model_path": url, "base_version": 1})
        assert refused.status_code == 400
        assert "contains no *.safetensors" in refused.json()["message"]
    assert not any(path.name == "copy" for path in paths_in(tmp_path)), "nothing is left of the copies"


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


async def test_pickled_changes_come_in_one_call_or_in_parts(tmp_path: Path) -> None:
    async with fleet(tmp_path) as (http, benches):
        state = {name: tensor.clone() for name, tensor in START.items()}
        state[EMBEDDING].view(-1)[[3, 0]] = 7.0
        answer = await http.post(TENSOR, {**pickled(elements(EMBEDDING, 3, 0)), "base_version": 0})
        assert answer.json()["message"] == "version 1 on 2 workers", answer.text
        require(benches[1], state)

        state[NORM] = torch.zeros(4).to(torch.bfloat16)
        state[HEAD].view(-1)[255] = 7.0
        parts = [pickled({f"_orig_mod.{NORM}": state[NORM]}), pickled(elements(HEAD, 255))]
        for number, tensors in enumerate(parts):
            answer = await http.post(TENSOR, {**tensors, "base_version": "1", "part": number})
            assert answer.json()["success"], answer.text
        assert [bench.engine.policy_version for bench in benches] == [1, 1]
        answer = await http.post(END, {"base_version": 1, "parts": 2, "weight_version": "5"})
        assert answer.json()["message"] == "version 5 on 2 workers", answer.text
        for bench in benches:
            require(bench, state)
        again = await http.post(END, {"base_version": 1, "parts": 2, "weight_version": "5"})
        assert again.status_code == 409, "it has been installed"
        assert (await http.post(END, {})).status_code == 200, "nothing is left"


async def test_a_refused_base_aborts_nothing(tmp_path: Path) -> None:
    async with fleet(tmp_path, FakeEngine(answer=lambda _prompt: (4,) * 50, token_s=0.05)) as (http, benches):
        request = {"input_ids": [4], "sampling_params": {"max_new_tokens": 50}}
        generating = asyncio.create_task(http.post("/generate", request))
        await eventually(lambda: any(bench.engine.running for bench in benches))
        change = {"base_version": 2, "abort_all_requests": True}
        for path, body in ((DISK, {"model_path": "/nowhere"}), (TENSOR, pickled({NORM: START[NORM]}))):
            assert (await http.post(path, {**body, **change})).status_code == 409
        assert (await generating).json()["meta_info"]["finish_reason"]["type"] == "length"
