"""The trainer process of a worker: real child processes that exit or are killed."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.machine import lives
from tlt_common.processes.children import failure_of
from tlt_common.processes.parent_death import killed_with_parent
from tlt_worker.lending.trainer_process import TrainerProcess, command


def test_the_trainer_is_started_by_its_name_alone() -> None:
    assert command({"socket": "/s", "nice": "5"})[1:] == [
        *("-m", "tlt_common.cli", "serve", "trainer"),
        *("--set", "socket=/s", "--set", "nice=5"),
    ]


def writes_its_pid(path: Path) -> list[str]:
    program = f"import os, time; open({str(path)!r}, 'a').write(f'{{os.getpid()}}\\n'); time.sleep(600)"
    return [sys.executable, "-c", program]


async def pids(path: Path, count: int) -> list[int]:
    async with asyncio.timeout(20):
        while not path.exists() or len(path.read_text().splitlines()) < count:  # noqa: ASYNC110,ASYNC240 - another process
            await asyncio.sleep(0.01)
    return [int(line) for line in path.read_text().splitlines()]  # noqa: ASYNC240


async def test_a_child_that_dies_is_told_and_started_again_and_ends_with_its_owner(tmp_path: Path) -> None:
    exits: list[None] = []
    process = TrainerProcess(writes_its_pid(tmp_path / "pids"))
    owner = asyncio.ensure_future(process.run(on_exit=lambda: exits.append(None)))
    (first,) = await pids(tmp_path / "pids", 1)
    process.kill()
    _, second = await pids(tmp_path / "pids", 2)
    assert len(exits) == 1
    assert not lives(first)
    owner.cancel()
    with pytest.raises(asyncio.CancelledError):
        await owner
    assert not lives(second)


async def test_why_a_trainer_does_not_run_is_known_to_its_worker(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"hidden_size": 8}')
    socket = tmp_path / "trainer.sock"
    settings = {"socket": str(socket), "model": str(tmp_path), "worker_id": "w", "checkpoint_dir": str(tmp_path / "c")}
    settings |= {"drafter_dir": str(tmp_path / "d")}
    process, exited = TrainerProcess(command(settings), failure=failure_of(socket)), asyncio.Event()
    owner = asyncio.ensure_future(process.run(on_exit=exited.set))
    async with asyncio.timeout(120):
        await exited.wait()
        while not process.problem:  # noqa: ASYNC110 - set right after
            await asyncio.sleep(0.01)
    owner.cancel()
    with pytest.raises(asyncio.CancelledError):
        await owner
    assert process.problem.startswith("the spot trainer does not run: model: config.json has no num_attention_heads")


async def test_a_child_dies_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "pids"
    parent = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "import subprocess, sys; from tlt_common.processes.parent_death import killed_with_parent as command; "
        "subprocess.run(command(sys.argv[1:]))",
        *writes_its_pid(path),
        stderr=subprocess.DEVNULL,
    )
    (child,) = await pids(path, 1)
    os.kill(parent.pid, signal.SIGKILL)
    await parent.wait()
    async with asyncio.timeout(20):
        while lives(child):  # noqa: ASYNC110 - only its parent is notified
            await asyncio.sleep(0.01)


def test_a_child_whose_parent_is_gone_already_does_not_start() -> None:
    script = killed_with_parent(["true"])
    script[4] = "1"  # not our process id: as if the parent had exited in the meantime
    assert subprocess.run(script, check=False).returncode == 1
