"""A restart goes on where the trainer was, from the newest checkpoint that is whole."""

import asyncio
import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from fsspec.implementations.local import LocalFileSystem

from tests.unit.tlt_trainer.tiny import CPU, TinyPolicy, frames_of
from tlt_common.domain.ids import DrafterVersion
from tlt_common.errors import ConfigError, NotFoundError, UnavailableError, WeightsError
from tlt_common.telemetry import metrics
from tlt_trainer.data.pack import collate, plan
from tlt_trainer.learned import Snapshot
from tlt_trainer.learner import Learner
from tlt_trainer.store.checkpoint_files import COUNTERS_FILE, OPTIMIZER_FILE, STATE_FILE, from_files, to_files
from tlt_trainer.store.checkpoints import Checkpoints
from tlt_trainer.store.storage import Storage, read_uri


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
    one = trained(policy, Learner(policy.form, CPU), 5)
    one.settle(DrafterVersion(2), one.weights(), one.counters)
    Checkpoints(str(tmp_path / "c")).write(one.snapshot())
    two, read = Learner(policy.form, CPU), Checkpoints(str(tmp_path / "c")).newest(policy.form)
    assert read is not None
    two.restore(read)
    assert equal(one.snapshot(), two.snapshot())
    assert two.counters.base_version == 2
    # The proof that nothing was left out: both learn the same from here.
    assert equal(trained(policy, one, 3).snapshot(), trained(policy, two, 3).snapshot())


def test_the_last_two_are_kept_and_the_newest_whole_one_is_read(policy: TinyPolicy, tmp_path: Path) -> None:
    learner, checkpoints = Learner(policy.form, CPU), Checkpoints(str(tmp_path))
    assert checkpoints.newest(policy.form) is None
    for steps in range(5):
        learner.counters = replace(learner.counters, steps=steps)
        checkpoints.write(learner.snapshot())
    (older, newer) = sorted(path for path in tmp_path.iterdir())
    found = checkpoints.newest(policy.form)
    assert found is not None
    assert found.counters.steps == 4
    (newer / "state.safetensors").write_bytes(b"cut")
    (tmp_path / ".00000009.left").mkdir()
    found = checkpoints.newest(policy.form)
    assert found is not None
    assert found.counters.steps == 3
    (older / COUNTERS_FILE).unlink()
    assert checkpoints.newest(policy.form) is None
    assert not (tmp_path / ".00000009.left").exists()


def test_a_checkpoint_of_another_model_is_an_error_in_the_configuration(policy: TinyPolicy, tmp_path: Path) -> None:
    checkpoints = Checkpoints(str(tmp_path))
    checkpoints.write(Learner(replace(policy.form, hidden_size=16), CPU).snapshot())
    with pytest.raises(ConfigError, match="another model") as caught:
        checkpoints.newest(policy.form)
    assert caught.value.field == "checkpoint_dir"


DAMAGE: dict[str, dict[str, bytes]] = {
    "cut": {STATE_FILE: b"cut"},
    "empty": {STATE_FILE: b""},
    "no JSON": {COUNTERS_FILE: b"{"},
    "a list": {COUNTERS_FILE: b"[1]"},
    "a counter is missing": {COUNTERS_FILE: b"{}"},
    **{
        f"a counter is {value.decode()}": {
            COUNTERS_FILE: b'{"steps": %s, "tokens": 1, "base_version": 0, "base_steps": 0, "base_tokens": 0}' % value
        }
        for value in (b"null", b"1.5", b"1e400", b"Infinity", b'"1"', b"true")
    },
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_newest_one_is_set_aside_and_does_not_push_out_the_good_one(
    policy: TinyPolicy, tmp_path: Path, damage: str
) -> None:
    learner, checkpoints = Learner(policy.form, CPU), Checkpoints(str(tmp_path))
    for steps in (1, 2):
        learner.counters = replace(learner.counters, steps=steps)
        checkpoints.write(learner.snapshot())
    for file, content in DAMAGE[damage].items():
        (tmp_path / "00000002" / file).write_bytes(content)
    found = checkpoints.newest(policy.form)
    assert found is not None
    assert found.counters.steps == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["00000001", "00000002.damaged"]
    checkpoints.write(replace(found, counters=replace(found.counters, steps=5)))
    (tmp_path / "00000002" / STATE_FILE).write_bytes(b"cut again")
    found = checkpoints.newest(policy.form)
    assert found is not None
    assert found.counters.steps == 1


@pytest.mark.parametrize("part", ["weights", "average", "base", "optimizer"])
@pytest.mark.parametrize("value", ["nan", "inf"])
def test_a_snapshot_that_is_not_finite_is_neither_written_nor_continued_from(
    policy: TinyPolicy, tmp_path: Path, part: str, value: str
) -> None:
    learner, checkpoints = trained(policy, Learner(policy.form, CPU), 2), Checkpoints(str(tmp_path))
    checkpoints.write(learner.snapshot())
    good = learner.snapshot()
    name = next(name for name, tensor in getattr(good, part).items() if tensor.dim())
    broken_tensor = getattr(good, part)[name].clone()
    broken_tensor.view(-1)[-1] = float(value)
    broken = replace(good)
    object.__setattr__(broken, part, {**getattr(good, part), name: broken_tensor})
    with pytest.raises(WeightsError, match="not finite"):
        checkpoints.write(broken)
    assert [path.name for path in tmp_path.iterdir()] == ["00000001"]
    Storage(str(tmp_path), mark=COUNTERS_FILE).write("00000002", to_files(broken))  # as earlier versions wrote it
    found = checkpoints.newest(policy.form)
    assert found is not None
    assert equal(found, learner.snapshot())


def test_parts_that_do_not_belong_together_are_damaged(policy: TinyPolicy, tmp_path: Path) -> None:
    learner = trained(policy, Learner(policy.form, CPU), 2)
    good = learner.snapshot()
    name = next(iter(good.weights))
    for broken in (
        replace(good, average={}),
        replace(good, base={name: good.base[name]}),
        replace(good, optimizer={f"{name}/momentum_buffer": torch.zeros(3)}),
    ):
        with pytest.raises(WeightsError):
            from_files(to_files(broken))
    assert from_files(to_files(replace(good, base={}))).base == {}


def test_a_storage_that_cannot_be_read_now_is_not_empty(
    policy: TinyPolicy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints = Checkpoints(str(tmp_path))
    checkpoints.write(Learner(policy.form, CPU).snapshot())

    class BotoCoreError(Exception):
        """Object stores raise errors that are no OSErrors."""

    def fail(*_args: object, **_kwargs: object) -> None:
        raise BotoCoreError("connection closed")

    for call in ("ls", "info", "cat_file"):
        with monkeypatch.context() as broken:
            broken.setattr(LocalFileSystem, call, fail)
            with pytest.raises(UnavailableError, match="connection closed"):
                checkpoints.newest(policy.form)
    with monkeypatch.context() as broken:
        broken.setattr(LocalFileSystem, "pipe_file", fail)
        with pytest.raises(UnavailableError, match="connection closed"):
            checkpoints.write(Learner(policy.form, CPU).snapshot())
    assert checkpoints.newest(policy.form) is not None
    assert [path.name for path in tmp_path.iterdir()] == ["00000001"]


async def test_an_offer_is_written_beside_training(policy: TinyPolicy, tmp_path: Path) -> None:
    learner, checkpoints = Learner(policy.form, CPU), Checkpoints(str(tmp_path))
    async with asyncio.timeout(10):
        writing = asyncio.create_task(checkpoints.run())
        checkpoints.offer(learner.snapshot())
        while not (tmp_path / "00000001").exists():  # noqa: ASYNC110 - it is another thread that writes
            await asyncio.sleep(0)
        writing.cancel()
    assert checkpoints.newest(policy.form) is not None


def test_the_optimizer_is_written_now_and_then_and_newer_weights_continue_with_it(
    policy: TinyPolicy, tmp_path: Path
) -> None:
    learner, checkpoints = Learner(policy.form, CPU), Checkpoints(str(tmp_path), optimizer_every=3)
    wanted = []
    for steps in range(1, 6):
        trained(policy, learner, 1)
        wanted.append(checkpoints.wants_optimizer)
        state = learner.snapshot()
        if steps == 4:
            older = state
        checkpoints.write(state if wanted[-1] else replace(state, optimizer={}))
    assert wanted == [True, False, False, True, False]
    assert sorted(path.parent.name for path in tmp_path.glob(f"*/{OPTIMIZER_FILE}")) == ["00000004"]
    reader = Checkpoints(str(tmp_path), optimizer_every=3)
    found = reader.newest(policy.form)
    assert found is not None
    assert equal(found, replace(learner.snapshot(), optimizer=older.optimizer))
    assert not reader.wants_optimizer  # that of the checkpoint before is still there
    two = Learner(policy.form, CPU)
    two.restore(found)
    before = two.counters.steps
    assert trained(policy, two, 3).counters.steps >= before + 3


def test_an_optimizer_that_later_checkpoints_refer_to_is_kept_and_may_be_lost(
    policy: TinyPolicy, tmp_path: Path
) -> None:
    learner, checkpoints = trained(policy, Learner(policy.form, CPU), 2), Checkpoints(str(tmp_path), optimizer_every=9)
    for _ in range(5):
        checkpoints.write(
            learner.snapshot() if checkpoints.wants_optimizer else replace(learner.snapshot(), optimizer={})
        )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["00000001", "00000004", "00000005"]
    (tmp_path / "00000001" / OPTIMIZER_FILE).write_bytes(b"cut")
    lost = metrics.CHECKPOINTS_SKIPPED.labels(reason="optimizer")
    before = lost._value.get()
    found = Checkpoints(str(tmp_path)).newest(policy.form)
    assert found is not None
    assert equal(found, replace(learner.snapshot(), optimizer={}))
    assert lost._value.get() == before + 1
    two = Learner(policy.form, CPU)
    two.restore(found)
    assert trained(policy, two, 2).counters.steps > found.counters.steps


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
