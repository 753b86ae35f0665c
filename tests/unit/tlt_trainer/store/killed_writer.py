"""
Writes checkpoints in processes that are killed: before each system call that touches the directory, and inside writes.

Usage: python -m tests.unit.tlt_trainer.store.killed_writer POLICY ROOT. Each directory under ROOT is of one process.
"""

import os
import resource
import signal
import sys
from dataclasses import replace
from pathlib import Path

from tests.unit.tlt_trainer.tiny import CPU
from tlt_trainer.drafter.shared_weights import read_format
from tlt_trainer.learned import Snapshot
from tlt_trainer.learner import Learner
from tlt_trainer.store.checkpoints import Checkpoints

SYSTEM_CALLS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.scandir", "os.listdir", "shutil.rmtree"}
"""Audit events of Python that come before a system call."""
WRITTEN = 3
"""Steps of the checkpoint in whose writing the process dies; those before it are whole."""
PARTIAL_BYTES = (0, 1, 100, 5000)


def main(policy: Path, root: Path) -> None:
    learner = Learner(read_format(policy), CPU)
    snapshot = learner.snapshot()
    stage, killed = 0, True
    while killed:
        stage += 1
        killed = _dies(snapshot, root / f"call-{stage:03d}", at_call=stage)
    for size in PARTIAL_BYTES:
        assert _dies(snapshot, root / f"bytes-{size}", at_bytes=size)


def _dies(snapshot: Snapshot, directory: Path, *, at_call: int = 0, at_bytes: int | None = None) -> bool:
    """Write checkpoints in a child; return whether it was killed in the last one."""
    child = os.fork()
    if not child:
        checkpoints = Checkpoints(str(directory))
        for steps in range(1, WRITTEN + 1):
            if steps == WRITTEN:
                _die_at(directory, at_call, at_bytes)
            checkpoints.write(replace(snapshot, counters=replace(snapshot.counters, steps=steps)))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status):
        assert os.WEXITSTATUS(status) == 0
        return False
    return True


def _die_at(directory: Path, call: int, size: int | None) -> None:
    if size is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # the kernel kills it inside a write that is cut short
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        return
    calls = 0

    def count(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal calls
        if event in SYSTEM_CALLS and str(directory) in str(arguments[0]):
            calls += 1
            if calls == call:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
