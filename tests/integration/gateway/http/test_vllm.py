"""vLLM's endpoints for pauses and weights on a gateway."""

import asyncio
from pathlib import Path

import pytest

from tests.fakes.worker import FakeWorker
from tests.integration.gateway.http.conftest import Serve
from tlt_gateway.http.vllm import weight_routes as marker

SIX = {"input_ids": [4], "sampling_params": {"max_new_tokens": 6}}
GROUP = {"master_address": "127.0.0.1", "master_port": 9, "rank_offset": 1, "world_size": 2, "backend": "gloo"}


async def test_generation_is_paused_and_resumed(serve: Serve, worker: FakeWorker) -> None:
    worker.free_tokens = 2
    worker.gate.clear()
    async with serve(worker) as http:
        calling = asyncio.create_task(http.post("/generate", SIX))
        await worker.until(1)
        assert (await http.post("/pause?mode=keep&clear_cache=false")).status_code == 200
        assert (await http.client.get("/is_paused")).json() == {"is_paused": True}
        await worker.until(0)
        worker.gate.set()
        assert (await http.post("/resume")).status_code == 200
        assert (await calling).json()["output_ids"] == [5, 6, 7, 8, 9, 10]
        for query, field in (("mode=off", "mode"), ("when=now", "when"), ("clear_cache=perhaps", "clear_cache")):
            assert (await http.refused(f"/pause?{query}", None))["param"] == field
        assert (await http.client.get("/is_paused")).json() == {"is_paused": False}


async def test_tensors_of_several_calls_are_one_update(serve: Serve, worker: FakeWorker) -> None:
    async with serve(worker) as http:
        assert (await http.client.get("/get_world_size")).json() == {"world_size": 1}
        assert (await http.post("/init_weight_transfer_engine", {"init_info": GROUP})).status_code == 200
        assert (await http.post("/start_weight_update", {"is_checkpoint_format": True})).status_code == 200
        for name, version in (("a", 0), ("b", 1)):
            info = {"names": [name], "dtype_names": ["bfloat16"], "shapes": [[1]]}
            assert (await http.post("/update_weights", {"update_info": info})).status_code == 200
            assert worker.policy_version == version
        assert (await http.post("/finish_weight_update")).status_code == 200
        assert worker.weights == {"a": b"ab", "b": b"ab"}
        assert (await http.post("/update_weights", {"update_info": info})).status_code == 200
        assert "1 tensors of the model did not arrive" in (await http.refused("/finish_weight_update", {}))["message"]
        assert worker.policy_version == 1


async def test_the_calls_of_one_update_may_come_to_several_gateways(serve: Serve, worker: FakeWorker) -> None:
    info = {name: {"names": [name], "dtype_names": ["bfloat16"], "shapes": [[1]]} for name in ("a", "b")}
    async with serve(worker) as first, serve(worker) as second:
        assert (await first.post("/init_weight_transfer_engine", {"init_info": GROUP})).status_code == 200
        assert (await second.post("/update_weights", {"update_info": info["a"]})).status_code == 200
        assert (await first.post("/update_weights", {"update_info": info["b"]})).status_code == 200
        assert worker.weights.keys() == {"a", "b"}
        assert (await second.post("/finish_weight_update")).status_code == 200
        assert (await second.post("/update_weights", {"update_info": info["a"]})).status_code == 200
        await first.refused("/finish_weight_update", {})
        assert worker.updates == [1]


async def test_a_directory_is_loaded_once_it_is_marked(
    serve: Serve, worker: FakeWorker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = tmp_path / "step_7"
    weights.mkdir()
    (weights / "model.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
    async with serve(worker) as http:
        updating = asyncio.create_task(http.post("/update_weights", {"weight_dir": str(weights)}))
        assert (await http.client.get("/get_weight_version")).json() == {"weight_version": "0"}
        (weights / "STABLE").touch()
        assert (await updating).status_code == 200
        assert worker.updates == [1]
        fetched = await http.post("/fetch_weights", {"target_version": 7, "sync_dir": str(weights)})
        assert fetched.json()["result"] == {"version": 7, "workers": 1}
        (weights / "STABLE").unlink()
        monkeypatch.setattr(marker, "WAIT_S", 0.01)
        assert (await http.refused("/update_weights", {"weight_dir": str(weights)}))["param"] == "weight_dir"


async def test_what_there_is_nothing_to_do_for_is_accepted(serve: Serve, worker: FakeWorker) -> None:
    async with serve(worker) as http:
        for path in (
            "/wake_up?tags=weights", "/reset_prefix_cache", "/resume_memory_occupation", "/begin_weight_update",
            "/end_weight_update",
        ):  # fmt: skip
            assert (await http.post(path)).status_code == 200, path
        assert (await http.client.get("/is_sleeping")).json() == {"is_sleeping": False}
        (listed,) = (await http.client.get("/workers")).json()["workers"]
        assert listed["url"] == f"http://{http.address}"
        info = (await http.client.get("/server_info")).json()
        assert info["tp_size"] * info["pp_size"] == 1
