"""Weights that SkyRL's trainers publish through its client, against a real gateway."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from tests.fakes.worker import FakeWorker
from tests.integration.gateway.http.conftest import Http, Serve
from tlt_common.errors import InvalidRequestError
from tlt_common.integrations.skyrl import CheckpointWeights


class Client:
    """Calls what SkyRL's RemoteInferenceClient calls."""

    def __init__(self, http: Http) -> None:
        self._http = http
        self.weight_version = 0

    def increment_weight_version(self) -> None:
        self.weight_version += 1

    async def fetch_weights(self, target_version: int, sync_dir: str | None = None, uri: str | None = None) -> Any:
        del sync_dir  # SkyRL leaves out what is None
        return await self._call_all_servers("/fetch_weights", {"target_version": target_version, "uri": uri})

    async def load_lora_adapter(self, lora_name: str, lora_path: str) -> Any:
        sent = {"lora_name": lora_name, "lora_path": lora_path}
        (await self._http.post("/skyrl/v1/load_lora_adapter", sent)).raise_for_status()

    async def _call_all_servers(self, path: str, json: Any = None, method: str = "POST") -> Any:
        answer = await self._http.client.request(method, path, json=json)
        answer.raise_for_status()
        return {self._http.address: {"status": answer.status_code, "body": answer.json()}}


class Learner:
    """Writes a checkpoint of one tensor, whose value is the number of checkpoints so far."""

    def __init__(self) -> None:
        self.saved = 0
        self.save_weights_for_sampler: Any = None

    def save_hf_model(self, model: str, directory: str, tokenizer: object) -> None:
        assert (model, tokenizer) == ("policy", "tokenizer")
        self.saved += 1
        Path(directory).mkdir(parents=True)
        save_file({"w": torch.full((1,), float(self.saved))}, Path(directory) / "model.safetensors")


def settings(rank: int = 0, strategy: str = "fsdp", *, merge: bool = False) -> Any:
    megatron = SimpleNamespace(lora_config=SimpleNamespace(merge_lora=merge))
    model = SimpleNamespace(lora=SimpleNamespace(rank=rank))
    return SimpleNamespace(
        trainer=SimpleNamespace(strategy=strategy, policy=SimpleNamespace(model=model, megatron_config=megatron))
    )


def trainer_of(http: Http, checkpoints: Path | str, cfg: Any = None) -> CheckpointWeights:
    class Trainer(CheckpointWeights):
        pass

    Trainer.checkpoints = str(checkpoints)
    trainer = Trainer()
    trainer.cfg = cfg or settings()
    trainer.dispatch, trainer.inference_engine_client, trainer.tokenizer = Learner(), Client(http), "tokenizer"
    return trainer


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.glob("*/*"))


async def test_each_update_is_a_checkpoint_above_the_version_served(
    serve: Serve, worker: FakeWorker, tmp_path: Path
) -> None:
    async with serve(worker) as http:
        for _ in range(2):  # a trainer that is started again counts from 0; the fleet does not
            trainer = trainer_of(http, tmp_path / f"run-{worker.policy_version}/")
            trainer.init_weight_sync_state()
            for _ in range(3):
                await trainer.dispatch.save_weights_for_sampler()
            assert trainer.inference_engine_client.weight_version == 3
    assert worker.updates == [1, 2, 3, 4, 5, 6]
    assert torch.frombuffer(bytearray(worker.weights["w"]), dtype=torch.float32).item() == 3.0
    assert names_in(tmp_path) == ["version-2", "version-3", "version-5", "version-6"]


async def test_of_a_policy_with_lora_the_adapter_is_loaded(serve: Serve, worker: FakeWorker, tmp_path: Path) -> None:
    async with serve(worker) as http:
        trainer = trainer_of(http, tmp_path, settings(rank=8))
        trainer.init_weight_sync_state()
        for _ in range(2):
            await trainer.dispatch.save_weights_for_sampler()
        assert worker.adapters == [f"{tmp_path}/version-{version}" for version in (1, 2)]
        answer = await http.post("/inference/v1/generate", {
            "model": "skyrl-lora", "token_ids": [1], "sampling_params": {"max_tokens": 2},
        })  # fmt: skip
        assert answer.status_code == 200, answer.text
        merged = trainer_of(http, tmp_path, settings(rank=8, strategy="megatron", merge=True))
        merged.init_weight_sync_state()
        await merged.dispatch.save_weights_for_sampler()
    assert worker.updates == [1, 2, 3]
    assert len(worker.adapters) == 2


async def test_what_cannot_be_sent_is_refused(serve: Serve, worker: FakeWorker, tmp_path: Path) -> None:
    async with serve(worker) as http:
        with pytest.raises(InvalidRequestError, match="checkpoints is empty"):
            trainer_of(http, "").init_weight_sync_state()
        with pytest.raises(InvalidRequestError, match="merge_lora is False"):
            trainer_of(http, tmp_path, settings(rank=8, strategy="megatron")).init_weight_sync_state()
        with pytest.raises(InvalidRequestError, match="model_id is 'adapter'"):
            await trainer_of(http, tmp_path).publish("adapter")
    assert not worker.updates
