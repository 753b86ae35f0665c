"""The end of a stack whose block ends by itself."""

import asyncio
import shutil
import tempfile
from pathlib import Path

import pytest

import countdown
from tlt_common.errors import ConfigError
from tlt_local.configuration.config import StackConfig
from tlt_local.stack import Stack
from tlt_local.supervision.home import Home
from tlt_local.supervision.processes import Supervised
from tlt_local.supervision.start_watch import StartWatch

MODEL = Path(countdown.__file__).with_name("checkpoint")


class WithoutServices(Stack):
    async def _start(self, home: Home, owners: asyncio.TaskGroup, running: list[Supervised], watch: StartWatch) -> None:
        self.home = home.directory


async def test_a_block_that_ends_ends_all_tasks_of_the_stack_and_removes_its_files() -> None:
    async with asyncio.timeout(60):
        async with WithoutServices(StackConfig(model=MODEL)) as stack:
            assert exists(stack.home)
        assert not exists(stack.home)


class Failing(WithoutServices):
    async def _start(self, home: Home, owners: asyncio.TaskGroup, running: list[Supervised], watch: StartWatch) -> None:
        (home.logs / "worker-0.log").write_text("CUDA out of memory")
        raise ConfigError("workers did not start: worker-0: out of memory", field="engine.max_running")


async def test_a_start_that_fails_says_why_and_keeps_its_logs() -> None:
    with pytest.raises(ConfigError, match=r"^workers did not start: worker-0: out of memory; logs: ") as failure:
        async with Failing(StackConfig(model=MODEL)):
            pass
    assert failure.value.field == "engine.max_running"
    logs = Path(failure.value.message.rpartition("logs: ")[2])
    assert read(logs / "worker-0.log") == "CUDA out of memory"
    shutil.rmtree(logs)


class Broken(WithoutServices):
    async def _start(self, home: Home, owners: asyncio.TaskGroup, running: list[Supervised], watch: StartWatch) -> None:
        logs = home.directory / "ray" / "session_latest" / "logs"
        logs.mkdir(parents=True)
        (logs / "raylet.err").write_text("no space left")
        (logs / "raylet.out").touch()
        raise OSError("not one of the suite's errors")


async def test_every_start_that_fails_says_where_its_logs_are_and_rays(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="not one of the suite's errors") as failure:
        async with Broken(StackConfig(model=MODEL)):
            pass
    (note,) = failure.value.__notes__
    logs = Path(note.removeprefix("logs: "))
    assert names_in(logs / "ray") == ["raylet.err"]
    shutil.rmtree(logs)
    with pytest.raises(OSError, match="not one") as failure:
        async with Broken(StackConfig(model=MODEL, run_dir=tmp_path)):
            pass
    assert failure.value.__notes__ == [f"logs: {tmp_path / 'logs'}"]
    assert names_in(tmp_path / "logs" / "ray") == ["raylet.err"]


class Waiting(WithoutServices):
    async def _start(self, home: Home, owners: asyncio.TaskGroup, running: list[Supervised], watch: StartWatch) -> None:
        (home.logs / "worker-0.log").write_text("loading")
        await asyncio.Event().wait()


async def test_a_start_that_is_cancelled_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1), Waiting(StackConfig(model=MODEL)):
            pass
    assert not copies(tmp_path)


def names_in(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


def read(path: Path) -> str:
    return path.read_text()


def copies(directory: Path) -> list[Path]:
    return list(directory.glob("tlt-logs-*"))


def exists(path: Path) -> bool:
    return path.exists()
