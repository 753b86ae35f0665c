"""Whenever the writer of a checkpoint is killed, the newest whole one is found and training continues from it."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from tests.unit.tlt_trainer.store.killed_writer import PARTIAL_BYTES, WRITTEN
from tests.unit.tlt_trainer.tiny import CPU, TinyPolicy
from tlt_common.telemetry import metrics
from tlt_trainer.learner import Learner
from tlt_trainer.store.checkpoints import KEPT, Checkpoints


def test_a_writer_that_is_killed_at_any_moment_costs_one_checkpoint_at_most(policy: TinyPolicy, tmp_path: Path) -> None:
    writer = [sys.executable, "-m", "tests.unit.tlt_trainer.store.killed_writer", str(policy.directory), str(tmp_path)]
    subprocess.run(writer, check=True, timeout=300)
    skipped = metrics.CHECKPOINTS_SKIPPED.labels(reason="incomplete")
    before, found = skipped._value.get(), list[int]()
    left = sorted(tmp_path.iterdir())
    assert len(left) > 10 + len(PARTIAL_BYTES)
    for directory in left:
        checkpoints = Checkpoints(str(directory))
        snapshot = checkpoints.newest(policy.form)
        assert snapshot is not None
        found.append(snapshot.counters.steps)
        assert snapshot.counters.steps in {WRITTEN - 1, WRITTEN}
        learner = Learner(policy.form, CPU)
        learner.restore(snapshot)
        checkpoints.write(replace(learner.snapshot(), counters=replace(snapshot.counters, steps=WRITTEN + 1)))
        again = Checkpoints(str(directory)).newest(policy.form)
        assert again is not None
        assert again.counters.steps == WRITTEN + 1
        assert len(list(directory.iterdir())) == KEPT
    assert set(found) == {WRITTEN - 1, WRITTEN}  # before and after it was in place
    assert skipped._value.get() > before
