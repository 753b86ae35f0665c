"""A restart goes on where the trainer was, from the newest checkpoint that is whole."""

import asyncio
import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.unit.tlt_trainer.tiny import CPU, TinyPolicy, frames_of
from tlt_common.domain.ids import DrafterVersion
from tlt_common.errors import ConfigError, NotFoundError
from tlt_trainer.batch import collate, plan
from tlt_trainer.checkpoint import META_FILE, Checkpoints
from tlt_trainer.learner import Learner, Snapshot
from tlt_trainer.storage import Storage, read_uri


def trained(policy: TinyPolicy, learner: Learner, steps: int) -> Learner:
    learner.share(policy.shared)
    rng, frames = random.Random(5), frames_of(policy, 40, seed=4)
    goal = learner.counters.steps + steps
    while learner.counters.steps < goal:
        for group in plan(rng.sample(frames, 8), 512, rng):
            learner.micro_step(collate(group, CPU))
    return learner


def equal(one: Snapshot, two: Snapshot) -> bool:
    parts = ("weights", "average", "base", "optimizer")
    return one.counters == two.counters and all(
        getattr(one, part).keys() == getattr(two, part).keys()
        and all(torch.equal(tensor, getattr(two, part)[name]) for name, tensor in getattr(one, part).items())
        for part in parts
    )


def test_a_restart_goes_on_with_equal_weights_and_optimizer(policy: TinyPolicy, tmp_path: Path) -> None:
    one = trained(policy, Learner(policy.shape, CPU), 5)
    one.settle(DrafterVersion(2), one.weights())
    Checkpoints(str(tmp_path / "c")).write(one.snapshot())
    two, read = Learner(policy.shape, CPU), Checkpoints(str(tmp_path / "c")).newest(policy.shape)
    assert read is not None
    two.restore(read)
    assert equal(one.snapshot(), two.snapshot())
    assert two.counters.base_version == 2
    # The proof that nothing was left out: both learn the same from here.
    assert equal(trained(policy, one, 3).snapshot(), trained(policy, two, 3).snapshot())


def test_the_last_two_are_kept_and_the_newest_whole_one_is_read(policy: TinyPolicy, tmp_path: Path) -> None:
    learner, checkpoints = Learner(policy.shape, CPU), Checkpoints(str(tmp_path))
    assert checkpoints.newest(policy.shape) is None
    for steps in range(5):
        learner.counters = replace(learner.counters, steps=steps)
        checkpoints.write(learner.snapshot())
    (older, newer) = sorted(path for path in tmp_path.iterdir())
    found = checkpoints.newest(policy.shape)
    assert found is not None
    assert found.counters.steps == 4
    (newer / "state.safetensors").write_bytes(b"cut")
    (tmp_path / ".00000009.left").mkdir()
    found = checkpoints.newest(policy.shape)
    assert found is not None
    assert found.counters.steps == 3
    (older / META_FILE).unlink()
    assert checkpoints.newest(policy.shape) is None
    assert not (tmp_path / ".00000009.left").exists()


def test_a_checkpoint_of_another_model_is_an_error_in_the_configuration(policy: TinyPolicy, tmp_path: Path) -> None:
    checkpoints = Checkpoints(str(tmp_path))
    checkpoints.write(Learner(replace(policy.shape, hidden_size=16), CPU).snapshot())
    with pytest.raises(ConfigError, match="another model") as caught:
        checkpoints.newest(policy.shape)
    assert caught.value.field == "checkpoint_dir"


async def test_an_offer_is_written_beside_training(policy: TinyPolicy, tmp_path: Path) -> None:
    learner, checkpoints = Learner(policy.shape, CPU), Checkpoints(str(tmp_path))
    async with asyncio.timeout(10):
        writing = asyncio.create_task(checkpoints.run())
        checkpoints.offer(learner.snapshot())
        while not (tmp_path / "00000001").exists():  # noqa: ASYNC110 - it is another thread that writes
            await asyncio.sleep(0)
        writing.cancel()
    assert checkpoints.newest(policy.shape) is not None


@pytest.mark.parametrize("kind", ["local", "file", "memory"])
def test_directories_are_whole_or_not_there(kind: str, tmp_path: Path) -> None:
    url = {"local": str(tmp_path / "d"), "file": f"file://{tmp_path}/d", "memory": f"memory://{tmp_path.name}"}[kind]
    storage = Storage(url, mark="mark")
    assert storage.names() == []
    uri = storage.write("b", {"mark": b"m", "x": b"1"})
    storage.write("a", {"x": b"2"})
    assert storage.names() == ["b"]
    assert storage.read("b") == read_uri(uri, mark="mark") == {"mark": b"m", "x": b"1"}
    with pytest.raises(NotFoundError):
        storage.read("a")
    storage.remove("b")
    storage.remove("b")
    assert storage.names() == []
    with pytest.raises(NotFoundError):
        read_uri(uri, mark="mark")
