"""Adapters that trainers load by name over HTTP, as SGLang and vLLM have it: real workers and gateways."""

import base64
import json
import pickle
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
from sglang.srt.weight_sync.tensor_bucket import FlattenedTensorBucket

from tests.fakes.spools import spools_in
from tests.integration.worker.adapted_fleet import START, Fleet, adapter, fleet, merged, saved
from tests.integration.worker.live_worker import Bench
from tlt_common.rpc.addresses import announced_in

NAMED = ("lora_name", "lora_path")


@asynccontextmanager
async def over_http(found: Fleet, *benches: Bench, spool: str = "spool") -> AsyncIterator[httpx.AsyncClient]:
    found.settings["http"] = {"listen": "127.0.0.1:0"}
    ports = found.work / f"{spool}.json"
    with announced_in(ports):
        async with found.gateway(*benches, spool=spool):
            address = json.loads(ports.read_text())["rollout_http"]
            async with httpx.AsyncClient(base_url=f"http://{address}", timeout=120) as client:
                yield client


async def post(client: httpx.AsyncClient, path: str, status: int = 200, **body: Any) -> Any:
    answer = await client.post(path, json=body)
    assert answer.status_code == status, answer.text
    return answer.json() if "json" in answer.headers["content-type"] else answer.text


async def version(client: httpx.AsyncClient) -> str:
    return str((await client.get("/get_weight_version")).json()["weight_version"])


def pickled(value: Any) -> str:
    return base64.b64encode(pickle.dumps(value)).decode()


@pytest.mark.parametrize("route", ["/load_lora_adapter", "/v1/load_lora_adapter", "/skyrl/v1/load_lora_adapter"])
async def test_an_adapter_is_loaded_from_a_directory_that_is_read_once(tmp_path: Path, route: str) -> None:
    async with fleet(tmp_path) as found, over_http(found) as client:
        first = saved(tmp_path / "step", 1)
        await post(client, route, lora_name="policy", lora_path=str(first))
        found.require(merged(START, 1))
        shutil.rmtree(first)  # as AReaL does
        await post(client, route, lora_name="policy", lora_path=str(saved(first, 2)))
        found.require(merged(START, 2))
        assert await version(client) == "2"
        shutil.rmtree(first)
        joined = await found.add_worker()
        async with over_http(found, joined, found.benches[0], spool="other") as other:
            found.require(merged(START, 2), joined)
            (_, listed) = (await other.get("/v1/models")).json()["data"]
            assert (listed["id"], listed["parent"]) == ("policy", "fake")
        left = [len(spools_in(bench.run_dir / "weights")) for bench in found.benches[:2]]
        assert left == [2, 2], "what arrived, and the directory that joins it with its base"


async def test_an_adapter_is_loaded_from_pickled_tensors(tmp_path: Path) -> None:
    async with fleet(tmp_path) as found, over_http(found) as client:
        route = "/load_lora_adapter_from_tensors"
        config, tensors = adapter(1)
        one = pickled(tensors)
        sent: dict[str, Any] = {"serialized_named_tensors": [one, one], "pinned": False}
        answer = await post(client, route, lora_name="a", config_dict=config, **sent)
        assert answer["success"]
        assert answer["loaded_adapters"] == {"a": "a"}
        found.require(merged(START, 1))
        config, tensors = adapter(2)
        sent = {"serialized_tensors": pickled(list(tensors.items())), "weight_version": "step-7"}
        await post(client, route, lora_name="a", config_dict=config, **sent)
        found.require(merged(START, 2))
        assert await version(client) == "7"
        config, tensors = adapter(3)
        bucket = FlattenedTensorBucket(named_tensors=list(tensors.items()))
        flat = {"flattened_tensor": bucket.get_flattened_tensor(), "metadata": bucket.get_metadata()}
        sent = {"serialized_named_tensors": [pickled(flat)], "load_format": "flattened_bucket"}
        await post(client, route, lora_name="a", config_dict=config, **sent)
        found.require(merged(START, 3))

        shared = base64.b64encode(bytes(ForkingPickler.dumps(torch.ones(2)))).decode()
        refused: list[tuple[dict[str, Any], str]] = [
            ({"serialized_named_tensors": [shared]}, "serialized_named_tensors: it contains a handle"),
            ({"serialized_tensors": shared}, "serialized_tensors: it contains a handle"),
            ({"serialized_tensors": pickled([1])}, "serialized_tensors: "),
        ]
        for sent, said in refused:
            answer = await post(client, route, 400, lora_name="a", config_dict=config, **sent)
            assert answer["error_message"].startswith(said)
        for sent, field in (
            ({}, "serialized_named_tensors"),
            ({"serialized_tensors": one, "serialized_named_tensors": [one]}, "serialized_named_tensors"),
            ({"serialized_tensors": "?"}, "serialized_tensors"),
            ({"serialized_tensors": one, "expected_checksums": {"a": "b"}}, "expected_checksums"),
            ({"serialized_tensors": one, "added_tokens_config": {"a": 1}}, "added_tokens_config"),
            ({"serialized_tensors": one, "load_format": "safetensors"}, "load_format"),
        ):
            answer = await post(client, route, 400, lora_name="a", config_dict=config, **sent)
            assert answer["error"]["param"] == field
        assert await version(client) == "8"


@pytest.mark.parametrize("route", ["/unload_lora_adapter", "/v1/unload_lora_adapter"])
async def test_without_its_adapter_the_base_is_a_version_of_its_own(tmp_path: Path, route: str) -> None:
    async with fleet(tmp_path) as found:
        async with over_http(found) as client:
            await post(client, "/load_lora_adapter", lora_name="a", lora_path=str(saved(tmp_path / "a", 1)))
            await post(client, route, 404, lora_name="b")
            await post(client, route, lora_name="a")
            found.require(START)
            assert await version(client) == "2"
            await post(client, route, 404, lora_name="a")
            await post(client, "/generate", 400, input_ids=[1], lora_path="a")
            await post(client, "/load_lora_adapter", lora_name="b", lora_path=str(saved(tmp_path / "b", 2)))
            found.require(merged(START, 2))
            await post(client, route, lora_name="b")
        joined = await found.add_worker()
        async with over_http(found, joined, found.benches[0], spool="other"):
            found.require(START, joined)


async def test_requests_may_name_the_adapter_that_is_loaded(tmp_path: Path) -> None:
    async with fleet(tmp_path) as found, over_http(found) as client, over_http(found, spool="two") as other:
        ids: dict[str, Any] = {"input_ids": [5], "sampling_params": {"max_new_tokens": 2}}
        refused = await post(client, "/generate", 400, **ids, lora_path="lora-v1")
        assert refused["error"]["message"] == "lora_path is 'lora-v1'; accepted: null: no adapter has a name"
        path = str(saved(tmp_path / "1", 1))
        await post(client, "/load_lora_adapter", lora_name="lora-v1", lora_path=path, pinned=True)
        for gateway in (other, client):
            for named in (None, "", "lora-v1", ["lora-v1"], [None]):
                await post(gateway, "/generate", **ids, lora_path=named)
        two: dict[str, Any] = {"input_ids": [[5], [6]], "sampling_params": {"max_new_tokens": 2}}
        await post(client, "/generate", **two, lora_path=["lora-v1", None])
        assert (await post(client, "/generate", 400, **two, lora_path=["lora-v1"]))["error"]["param"] == "lora_path"
        await post(client, "/announce", **ids, lora_path="lora-v1")
        completion: dict[str, Any] = {"prompt": [5], "max_tokens": 2}
        for model in (None, "fake", "/models/fake", "lora-v1", "fake:lora-v1", "/models/fake:lora-v1"):
            await post(client, "/v1/completions", **completion, model=model)
        await post(client, "/v1/completions", **completion, model="fake", lora_path="lora-v1")
        vllm: dict[str, Any] = {"token_ids": [5], "sampling_params": {"max_tokens": 2}}
        await post(client, "/inference/v1/generate", **vllm, model="lora-v1")

        path = str(saved(tmp_path / "2", 2))
        await post(client, "/load_lora_adapter", lora_name="lora-v2", lora_path=path)
        for gateway in (other, client):
            answer = await post(gateway, "/generate", 400, **ids, lora_path="lora-v1")
            assert answer["error"]["message"] == "lora_path is 'lora-v1'; accepted: null, or 'lora-v2'"
            for model in ("lora-v1", "fake:lora-v1", "other:lora-v2", "fake:"):
                answer = await post(gateway, "/v1/completions", 404, **completion, model=model)
                assert answer["error"]["message"] == f"model is {model!r}; served: 'fake', 'lora-v2'"
            await post(gateway, "/generate", **ids, lora_path="lora-v2")


async def test_a_gateway_that_restarts_knows_the_name(tmp_path: Path) -> None:
    async with fleet(tmp_path) as found:
        async with over_http(found) as client:
            await post(client, "/load_lora_adapter", lora_name="a", lora_path=str(saved(tmp_path / "a", 1)))
        async with over_http(found, spool="none") as client:
            await post(client, "/generate", input_ids=[1], sampling_params={"max_new_tokens": 2}, lora_path="a")


async def test_what_is_not_an_adapter_of_the_base_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    async with fleet(tmp_path) as found, over_http(found) as client:
        route, path = "/load_lora_adapter", str(saved(tmp_path / "a", 1))
        config = json.loads((tmp_path / "a" / "adapter_config.json").read_text())
        for changed, said in (({"r": 3}, "of rank 3"), ({"bias": "all"}, "bias of adapter_config.json")):
            (tmp_path / "a" / "adapter_config.json").write_text(json.dumps(config | changed))
            answer = await post(client, route, 400, lora_name="a", lora_path=path)
            assert not answer["success"]
            assert said in answer["error_message"]
        missing = await post(client, route, 400, lora_name="a", lora_path=str(tmp_path / "none"))
        assert "is not a directory readable by this worker" in missing["error_message"]
        assert "source" in (await post(client, route, 400, lora_name="a", lora_path="http://x/y"))["error_message"]
        for body, field in (
            ({"lora_name": "", "lora_path": path}, "lora_name"),
            ({"lora_name": "x" * 300, "lora_path": path}, "lora_name"),
            ({"lora_name": "a", "lora_path": ""}, "lora_path"),
            ({"lora_name": "a", "lora_path": path, "lora_id": "7"}, "lora_id"),
            ({"lora_name": "a", "lora_path": path, "weight_version": "x"}, "weight_version"),
            ({"lora_name": "a"}, "lora_path"),
        ):
            assert (await post(client, route, 400, **body))["error"]["param"] == field
        assert await version(client) == "0"
        assert not any(bench.engine.loaded for bench in found.benches)
