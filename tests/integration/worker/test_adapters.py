"""Adapters as versions of the policy: real workers and gateways, scripted engines that hold files to the real rule."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.fakes.spools import spools_in
from tests.integration.worker.adapted_fleet import MATRIX, START, adapter, fleet, merged, saved, written
from tlt_common.client import ChangedElements
from tlt_common.errors import InvalidRequestError, StaleVersionError, WeightsError


@pytest.mark.parametrize("shared", [False, True])
async def test_adapters_are_merged_into_the_start_and_then_into_whole_weights(tmp_path: Path, *, shared: bool) -> None:
    async with fleet(tmp_path, spool_shared=shared) as found, found.gateway() as client:
        await client.publish_adapter(1, adapter(1), base=found.model)
        found.require(merged(START, 1))
        await client.publish_adapter(None, saved(tmp_path / "saved", 2), base=found.model)
        found.require(merged(START, 2))
        assert (await client.info()).policy_version == 2

        whole = {name: tensor + 1 for name, tensor in START.items()}
        result = await client.publish_weights(5, whole)
        await client.publish_adapter(6, adapter(3), base=result.digest)
        found.require(merged(whole, 3))
        await client.publish_adapter(7, adapter(4), base=result.digest)
        found.require(merged(whole, 4))
        await client.publish_weights(8, whole)
        left = [len(spools_in(bench.run_dir / "weights")) for bench in found.benches]
        assert left == [0, 0] if shared else [1, 1], "no adapter is left"


async def test_a_worker_that_joins_gets_the_base_first(tmp_path: Path) -> None:
    async with fleet(tmp_path) as found:
        async with found.gateway() as client:
            whole = {name: tensor + 1 for name, tensor in START.items()}
            digest = (await client.publish_weights(3, whole)).digest
            await client.publish_adapter(4, adapter(1), base=digest)
            joined = await found.add_worker()
            async with found.gateway(joined, found.benches[0], spool="other") as other:
                found.require(merged(whole, 1), joined)
                await other.publish_adapter(5, adapter(2), base=digest)
                found.require(merged(whole, 2), joined, found.benches[0])
        for bench in found.benches:
            assert bench.engine.policy_version >= 4


@pytest.mark.parametrize("whole", [False, True])
async def test_a_gateway_that_restarts_finds_the_adapter_and_its_base(tmp_path: Path, *, whole: bool) -> None:
    async with fleet(tmp_path) as found:
        base, digest = START, ""
        async with found.gateway() as client:
            if whole:
                base = {name: tensor + 1 for name, tensor in START.items()}
                digest = (await client.publish_weights(3, base)).digest
            await client.publish_adapter(4, adapter(1), base=digest or found.model)
            async with asyncio.timeout(10):
                while len(list((tmp_path / "spool").glob("weights-*/release.json"))) < 1 + whole:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
        joined = await found.add_worker()
        async with found.gateway(joined):
            found.require(merged(base, 1), joined)


async def test_what_does_not_belong_together_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    async with fleet(tmp_path) as found, found.gateway() as client:
        other = written(tmp_path / "other", {name: tensor + 1 for name, tensor in START.items()})
        await client.publish_adapter(1, adapter(1), base=found.model)
        config, tensors = adapter(2)
        cut = {name: tensor[:1] for name, tensor in tensors.items()}
        half = dict(list(tensors.items())[:1])
        refused: list[tuple[Any, Any, str]] = [
            ((config, tensors), other, "trained on weights with digest"),
            ((config, cut), found.model, "accepted: "),
            ((config, half), found.model, "send both"),
            ((config | {"bias": "all"}, tensors), found.model, "bias of adapter_config.json"),
            ((config | {"peft_type": "IA3"}, tensors), found.model, "accepted: 'LORA'"),
            ((config | {"init_lora_weights": "pissa"}, tensors), found.model, "init_lora_weights"),
            ((config, {**tensors, "x.weight": torch.ones(1)}), found.model, "x.weight"),
            ((config, {}), found.model, "no tensor"),
        ]
        for sent, base, said in refused:
            with pytest.raises(WeightsError, match=said):
                await client.publish_adapter(2, sent, base=base)
        for base in ("no/such-model", None):
            with pytest.raises(InvalidRequestError, match="accepted: the directory") as unknown:
                await client.publish_adapter(2, (config, tensors), base=base)
            assert unknown.value.field == "base"
        with pytest.raises(InvalidRequestError, match="publish_adapter"):
            await client.publish_weights(2, tensors)
        with pytest.raises(InvalidRequestError, match="accepted: a directory that PEFT saved"):
            await client.publish_adapter(2, 3, base=found.model)
        changes = ChangedElements(indices=torch.tensor([0]), values=torch.tensor([1.0]))
        with pytest.raises(InvalidRequestError, match="an adapter upon 0"):
            await client.publish_weights(2, {MATRIX: changes}, base=1)
        with pytest.raises(InvalidRequestError, match="accepted: above 1"):
            await client.publish_adapter(1, adapter(2), base=found.model)
        assert (await client.publish_adapter(1, adapter(1), base=found.model)).workers == 2
        found.require(merged(START, 1))
        assert [len(bench.engine.loaded) for bench in found.benches] == [1, 1]


async def test_whole_weights_that_come_between_make_an_adapter_stale(tmp_path: Path) -> None:
    async with fleet(tmp_path) as found, found.gateway() as one, found.gateway(spool="two") as two:
        whole = {name: tensor + 1 for name, tensor in START.items()}
        await one.publish_weights(1, whole)
        with pytest.raises((WeightsError, StaleVersionError), match=r"trained on|merged into"):
            await two.publish_adapter(2, adapter(1), base=found.model)
        assert (await two.info()).policy_version == 1
