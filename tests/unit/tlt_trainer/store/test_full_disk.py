"""A full disk costs the newest checkpoint or drafter, and nothing that was there before."""

from pathlib import Path

import pytest

from tests.fakes.full_disk import full_disk
from tests.unit.tlt_trainer.tiny import CPU, TinyPolicy
from tlt_common.errors import UnavailableError
from tlt_trainer.learner import Learner
from tlt_trainer.store.checkpoints import Checkpoints
from tlt_trainer.store.storage import Storage


@pytest.mark.parametrize("room_bytes", [0, 1, 300, 10_000])
def test_the_checkpoint_before_stays_and_the_next_one_is_written(
    policy: TinyPolicy, tmp_path: Path, room_bytes: int
) -> None:
    checkpoints, learner = Checkpoints(str(tmp_path)), Learner(policy.form, CPU)
    checkpoints.write(learner.snapshot())
    before = sorted(path.name for path in tmp_path.iterdir())
    with full_disk(room_bytes), pytest.raises(UnavailableError, match="cannot be written"):
        checkpoints.write(learner.snapshot())
    assert sorted(path.name for path in tmp_path.iterdir()) == before  # nothing half written is left
    assert Checkpoints(str(tmp_path)).newest(policy.form) is not None
    checkpoints.write(learner.snapshot())
    assert len(list(tmp_path.iterdir())) == len(before) + 1


def test_a_drafter_is_published_whole_or_not_at_all(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path), mark="meta.json")
    files = {"model.safetensors": bytes(5000), "config.json": b"{}", "meta.json": b"{}"}
    with full_disk(4096), pytest.raises(UnavailableError, match="cannot be written"):
        storage.write("v1", files)
    assert storage.names() == []
    assert list(tmp_path.iterdir()) == []
    storage.write("v1", files)
    assert storage.read("v1") == files
