"""Changes of weights: real workers and gateways, scripted engines that hold files to the real rule."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.fakes.spools import spools_in
from tests.integration.gateway.conftest import served
from tests.integration.worker.live_worker import Bench, working
from tlt_common.client import ChangedElements, Client
from tlt_common.errors import InvalidRequestError, StaleVersionError, WeightsError
from tlt_gateway.config import GatewayConfig
from tlt_worker.checkpoints.policy import ModelTensors

EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"
START = {EMBEDDING: torch.randn(64, 4), HEAD: torch.randn(64, 4), "model.norm.weight": torch.ones(4).to(torch.bfloat16)}


def some(tensor: torch.Tensor, *indices: int) -> ChangedElements:
    return ChangedElements(indices=torch.tensor(indices), values=torch.full((len(indices),), 7.0).to(tensor.dtype))


def written(directory: Path, state: dict[str, torch.Tensor]) -> Path:
    directory.mkdir()
    (directory / "config.json").write_text(json.dumps({"tie_word_embeddings": False}))
    save_file(state, directory / "model.safetensors")
    return directory


@asynccontextmanager
async def fleet(tmp_path: Path) -> AsyncIterator[tuple[Client, list[Bench], dict[str, Any]]]:
    """Run two workers and a gateway; yield its client, the workers, and its settings."""
    model = written(tmp_path / "model", START)
    async with AsyncExitStack() as stack:
        benches = [Bench(tmp_path / str(index)) for index in range(2)]
        for index, bench in enumerate(benches):
            bench.engine.check = ModelTensors.of(model).check
            await stack.enter_async_context(working(bench, model=model, worker_id=f"w{index}"))
        settings = {
            "workers": [bench.address for bench in benches], "spool_dir": tmp_path / "spool",
        }  # fmt: skip
        config = GatewayConfig.model_validate(settings)
        yield await stack.enter_async_context(served(config, workers=2)), benches, settings


def require(bench: Bench, state: dict[str, torch.Tensor]) -> None:
    found = load_file(bench.engine.loaded[-1] / "model.safetensors")
    assert found.keys() == state.keys()
    assert all(torch.equal(found[name], state[name]) for name in state)


async def test_changes_of_what_is_served_are_an_update_whatever_published_it(tmp_path: Path) -> None:
    async with fleet(tmp_path) as (client, benches, settings):
        state = {name: tensor.clone() for name, tensor in START.items()}
        state[EMBEDDING].view(-1)[[3, 0]] = 7.0
        await client.publish_weights(1, {EMBEDDING: some(START[EMBEDDING], 3, 0)}, base=0)
        for bench in benches:
            require(bench, state)

        state["model.norm.weight"] = torch.zeros(4).to(torch.bfloat16)
        await client.publish_weights(5, {"_orig_mod.model.norm.weight": state["model.norm.weight"]}, base=1)
        require(benches[1], state)

        state = {name: tensor + 1 for name, tensor in START.items()}
        await client.publish_weights(6, written(tmp_path / "published", state))
        state[HEAD].view(-1)[255] = 7.0
        await client.publish_weights(7, {HEAD: some(START[HEAD], 255)}, base=6)
        require(benches[0], state)
        await late(tmp_path, benches, settings, state)
    assert not spools_in(tmp_path / "0" / "weights"), "nothing is left of the changes"


async def late(tmp_path: Path, benches: list[Bench], settings: dict[str, Any], state: dict[str, torch.Tensor]) -> None:
    """A worker that joins at another gateway receives whole weights, and changes go on from there."""
    joining = Bench(tmp_path / "late")
    joining.engine.check = benches[0].engine.check
    async with working(joining, model=tmp_path / "model", worker_id="late"):
        workers = [joining.address, benches[0].address]
        other = GatewayConfig.model_validate({**settings, "workers": workers, "spool_dir": tmp_path / "other"})
        async with served(other, workers=2) as client:
            require(joining, state)
            state[HEAD].view(-1)[1] = 7.0
            await client.publish_weights(8, {HEAD: some(START[HEAD], 1)}, base=7)
            require(joining, state)


async def test_changes_of_anything_else_are_refused_with_both_versions(tmp_path: Path) -> None:
    async with fleet(tmp_path) as (client, benches, _):
        changes = {EMBEDDING: some(START[EMBEDDING], 3)}
        await client.publish_weights(3, changes, base=0)
        for base in (0, 2, 4):
            with pytest.raises(StaleVersionError, match=f"base_version is {base}; served: 3") as stale:
                await client.publish_weights(4, changes, base=base)
            assert stale.value.field == "header.base_version"
        for changed, said in (
            ({"unheard.of": torch.ones(1)}, "unheard.of is not in the served weights"),
            ({EMBEDDING: some(START[EMBEDDING], 256)}, "accepted: 0 to 255"),
            ({EMBEDDING: torch.ones(64, 5)}, "has shape"),
        ):
            with pytest.raises(WeightsError, match=said):
                await client.publish_weights(4, changed, base=3)
        with pytest.raises(WeightsError, match="nowhere is not a directory"):
            await client.publish_weights(4, tmp_path / "nowhere", base=3)
        with pytest.raises(WeightsError, match="missing"):
            await client.publish_weights(4, {EMBEDDING: START[EMBEDDING]})
        with pytest.raises(InvalidRequestError, match="accepted: above 3"):
            await client.publish_weights(3, changes, base=3)
        assert (await client.info()).policy_version == 3
        assert [len(bench.engine.loaded) for bench in benches] == [1, 1]
