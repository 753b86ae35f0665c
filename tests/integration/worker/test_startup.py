"""Responses of an earlier run are computed while the device is lent, and until the fleet has a drafter."""

import json
from pathlib import Path

import pytest

from tests.fakes.engine import FakeEngine
from tests.fakes.eventually import eventually
from tests.fakes.peers import FakeCoordinator
from tests.integration.worker.live_worker import Bench, working
from tlt_common.domain.fleet import DrafterWish, Lease, WorkerState
from tlt_common.domain.ids import DrafterVersion, Epoch
from tlt_common.domain.prompt import Prompt
from tlt_common.errors import ConfigError
from tlt_worker.config import WorkerConfig
from tlt_worker.main import live

KEPT = [{"prompt_token_ids": [token, 2], "token_ids": [3, 4, 5]} for token in range(10, 18)]


@pytest.fixture
def computed(bench: Bench) -> list[Prompt]:
    """What the engine was asked to compute."""
    prompts = list[Prompt]()

    def answer(prompt: Prompt) -> tuple[int, ...]:
        prompts.append(prompt)
        return (1,) if prompt.prefix_token_ids else tuple(range(8))

    bench.engine = FakeEngine(answer=answer)
    return prompts


def settings_of(directory: Path, kept: object = KEPT) -> dict[str, object]:
    (directory / "config.json").write_text(json.dumps({"vocab_size": 100, "max_position_embeddings": 64}))
    path = directory / "kept.jsonl"
    path.write_text("\n".join(map(json.dumps, kept if isinstance(kept, list) else [kept])))
    return {"model": directory, "startup_responses": path}


async def test_they_are_computed_under_the_first_lease_each_once(
    bench: Bench, coordinator: FakeCoordinator, computed: list[Prompt], tmp_path: Path
) -> None:
    settings = settings_of(tmp_path)
    async with coordinator.peer, working(bench, coordinator=coordinator.peer.address, **settings):
        await coordinator.until(lambda status: status.trainer_ready)
        assert computed == []
        coordinator.orders.put_nowait(Lease(epoch=Epoch(3), ttl_s=60))
        await eventually(lambda: len(computed) == len(KEPT))
        assert await bench.count() == 8
        status = await coordinator.until_state(WorkerState.IDLE)
        assert status.produced_tokens == 8  # nobody receives what else was generated
    *startup, _ = computed
    assert sorted(prompt.token_ids for prompt in startup) == [(token, 2) for token in range(10, 18)]
    assert {(prompt.prefix_token_ids, prompt.sampling.max_new_tokens) for prompt in startup} == {((3, 4), 3)}


async def test_none_are_computed_once_the_fleet_has_a_drafter(
    bench: Bench, coordinator: FakeCoordinator, computed: list[Prompt], tmp_path: Path
) -> None:
    settings = settings_of(tmp_path)
    async with coordinator.peer, working(bench, coordinator=coordinator.peer.address, **settings):
        await coordinator.until(lambda status: status.trainer_ready)
        coordinator.orders.put_nowait(DrafterWish(version=DrafterVersion(1), uri="/drafters/1"))
        coordinator.orders.put_nowait(Lease(epoch=Epoch(3), ttl_s=60))
        await coordinator.until_state(WorkerState.TRAINING)
        assert await bench.count() == 8
    assert [prompt.prefix_token_ids for prompt in computed] == [()]


async def test_a_file_that_does_not_fit_ends_the_start_before_the_engine_begins(bench: Bench, tmp_path: Path) -> None:
    settings = settings_of(tmp_path, {"prompt_token_ids": [1], "token_ids": [100]})
    config = WorkerConfig.model_validate({"run_dir": bench.run_dir, **settings})
    with pytest.raises(ConfigError, match=r"startup_responses: .*kept.jsonl:1: token_ids"):
        await live(config, bench.engine, trainer=bench.fake_trainer)
    assert not bench.engine.closed, "it was not started"
