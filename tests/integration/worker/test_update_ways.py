"""Every way of sending a policy update is held to one rule: complete, or refused."""

import asyncio
import base64
import json
import pickle
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from tests.fakes.broadcaster import Broadcaster, broadcaster
from tests.fakes.machine import free_port
from tests.integration.gateway.http.conftest import Http
from tests.integration.worker.live_worker import Bench, working
from tests.integration.worker.test_receiving import served as gateway
from tlt_common.client import Client
from tlt_common.errors import WeightsError
from tlt_gateway.http.vllm.weights import GROUP
from tlt_worker.checkpoints.policy import ModelTensors
from tlt_worker.scheduler.policy_load import split

EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"
BODY = {EMBEDDING: torch.randn(8, 4), "model.norm.weight": torch.ones(4)}
EXPERTS = "model.layers.0.mlp.experts"
STACKED = {
    EMBEDDING: torch.randn(8, 4),
    HEAD: torch.randn(8, 4),
    f"{EXPERTS}.gate_up_proj": torch.randn(2, 6, 4),
    f"{EXPERTS}.down_proj": torch.randn(2, 4, 3),
}
"""As a trainer holds a mixture of experts."""


@dataclass
class Fleet:
    """A gateway, a worker, and a trainer that sends one state."""

    client: Client
    http: Http
    trainer: Broadcaster
    directory: Path
    state: dict[str, torch.Tensor]

    @property
    def described(self) -> dict[str, Any]:
        return {
            "names": list(self.state),
            "dtypes": ["float32"] * len(self.state),
            "shapes": [list(tensor.shape) for tensor in self.state.values()],
        }

    async def answered(self, path: str, body: dict[str, Any], *, broadcast: bool = False) -> bool:
        """Make a call, and end the update; return whether both succeeded."""
        if broadcast:
            await self.trainer.send(list(self.state))
        answer = await self.http.post(path, body)
        if broadcast:
            await self.trainer.sent()
        return answer.status_code == 200 and (await self.http.post("/end_weight_update", {})).status_code == 200


@asynccontextmanager
async def fleet(
    tmp_path: Path, state: dict[str, torch.Tensor], *, served: dict[str, torch.Tensor], **config: Any
) -> AsyncIterator[tuple[Fleet, Bench]]:
    model, directory = tmp_path / "model", tmp_path / "update"
    for path, tensors in ((model, served), (directory, state)):
        path.mkdir()
        (path / "config.json").write_text(json.dumps(config))
        save_file({name: tensor.clone() for name, tensor in tensors.items()}, path / "model.safetensors")
    (directory / "STABLE").touch()
    async with AsyncExitStack() as stack:
        bench = Bench(tmp_path / "run")
        bench.engine.check = ModelTensors.of(model).check
        await stack.enter_async_context(working(bench, model=model))
        endpoints: list[str] = []
        http = await stack.enter_async_context(gateway(tmp_path, bench.address, on_serving=endpoints.append))
        client = await stack.enter_async_context(Client(endpoints[0]))
        await client.wait_ready(30)
        trainer = await stack.enter_async_context(
            broadcaster(directory / "model.safetensors", port=free_port(), name=GROUP)
        )
        joining = http.post("/init_weights_update_group", trainer.group)
        assert (await asyncio.gather(joining, trainer.joined()))[0].status_code == 200
        yield Fleet(client, http, trainer, directory, state), bench


async def published(client: Client, weights: Any) -> bool:
    try:
        await client.publish_weights((await client.info()).policy_version + 1, weights)
    except WeightsError:
        return False
    return True


WAYS: dict[str, Callable[[Fleet], Awaitable[bool]]] = {
    "directory": lambda it: published(it.client, it.directory),
    "stream": lambda it: published(it.client, it.state),
    "stream of a compiled model": lambda it: published(
        it.client, {f"_orig_mod.{name}": tensor for name, tensor in it.state.items()}
    ),
    "disk": lambda it: it.answered("/update_weights_from_disk", {"model_path": str(it.directory)}),
    "tensors": lambda it: it.answered(
        "/update_weights_from_tensor",
        {"serialized_named_tensors": [base64.b64encode(pickle.dumps(list(it.state.items()))).decode()]},
    ),
    "group": lambda it: it.answered(
        "/update_weights_from_distributed", {**it.described, "group_name": GROUP}, broadcast=True
    ),
    "vLLM's group": lambda it: it.answered(
        "/update_weights",
        {"update_info": {("dtype_names" if key == "dtypes" else key): it.described[key] for key in it.described}},
        broadcast=True,
    ),
    "vLLM's directory": lambda it: it.answered("/update_weights", {"weight_dir": str(it.directory)}),
    "SkyRL's fetch": lambda it: it.answered("/fetch_weights", {"target_version": 90, "sync_dir": str(it.directory)}),
}


@pytest.mark.parametrize("is_tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("head", ["none", "equal", "other"])
async def test_every_way_has_one_rule_about_heads(tmp_path: Path, is_tied: bool, head: str) -> None:
    heads = {"none": {}, "equal": {HEAD: BODY[EMBEDDING].clone()}, "other": {HEAD: BODY[EMBEDDING] + 1}}
    is_good = head != "other" if is_tied else head != "none"
    served = BODY if is_tied else {**BODY, HEAD: torch.zeros(8, 4)}
    state = {**BODY, **heads[head]}
    async with fleet(tmp_path, state, served=served, tie_word_embeddings=is_tied) as (sent, bench):
        assert {way: await send(sent) for way, send in WAYS.items()} == dict.fromkeys(WAYS, is_good)
        assert len(bench.engine.loaded) == (len(WAYS) if is_good else 0)


def apart(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {part: view.clone() for name, tensor in state.items() for part, view in split(name, tensor)}


MIXED = {**apart(STACKED), f"{EXPERTS}.down_proj": STACKED[f"{EXPERTS}.down_proj"]}
CUT = {**STACKED, f"{EXPERTS}.down_proj": STACKED[f"{EXPERTS}.down_proj"][:1].clone()}
SHORT = {name: tensor for name, tensor in apart(STACKED).items() if not name.endswith("1.up_proj.weight")}


@pytest.mark.parametrize(
    ("state", "is_good"),
    [(STACKED, True), (apart(STACKED), True), (MIXED, False), (CUT, False), (SHORT, False)],
    ids=["stacked", "apart", "both", "an expert cut off a stack", "an expert missing"],
)
async def test_every_way_has_one_rule_about_experts(
    tmp_path: Path, state: dict[str, torch.Tensor], is_good: bool
) -> None:
    config = {"tie_word_embeddings": False, "model_type": "qwen3_moe"}
    async with fleet(tmp_path, state, served=apart(STACKED), **config) as (sent, bench):
        assert {way: await send(sent) for way, send in WAYS.items()} == dict.fromkeys(WAYS, is_good)
        assert len(bench.engine.loaded) == (len(WAYS) if is_good else 0)


async def test_no_way_takes_values_that_are_not_finite(tmp_path: Path) -> None:
    diverged = {**BODY, "model.norm.weight": torch.tensor([1.0, float("nan"), 1.0, 1.0])}
    async with fleet(tmp_path, diverged, served=BODY, tie_word_embeddings=True) as (sent, bench):
        assert {way: await send(sent) for way, send in WAYS.items()} == dict.fromkeys(WAYS, False)
        assert not bench.engine.loaded
        with pytest.raises(WeightsError, match=r"tensor model\.norm\.weight has values that are not finite"):
            await sent.client.publish_weights(99, diverged)
