"""Supervised processes and their guard: real child processes, real signals."""

import asyncio
import json
import os
import signal
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from tests.fakes.eventually import eventually
from tests.fakes.machine import lives
from tlt_common.errors import ConfigError, UnavailableError
from tlt_local.supervision.home import Home, guarded
from tlt_local.supervision.processes import STARTS, Ended, Supervised, repeated

SERVICE = """
import json, os, sys, time
path, listen = sys.argv[1:3]
print("serving", flush=True)
with open(path + ".new", "w") as file:
    json.dump({"grpc": listen, "pid": os.getpid()}, file)
os.replace(path + ".new", path)
time.sleep(600)
"""
REFUSING = "import sys; print('first', flush=True); sys.exit('cache: redis://nowhere does not answer')"
BUSY = (
    """
import os, sys
with open(sys.argv[1] + ".tries", "a+") as tries:
    tries.write(".")
    tries.seek(0)
    if len(tries.read()) < int(sys.argv[3]):
        print("Ray did not start: timed out", flush=True)
        os._exit(os.EX_TEMPFAIL)
"""
    + SERVICE
)
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + SERVICE


def command(program: str, home: Home) -> Callable[[Mapping[str, str]], Sequence[str]]:
    def spelled(fixed: Mapping[str, str]) -> Sequence[str]:
        return [sys.executable, "-c", program, str(home.addresses("thing")), fixed.get("listen", "host:1")]

    return spelled


def pid_of(home: Home) -> int:
    try:
        return int(json.loads(home.addresses("thing").read_text())["pid"])
    except OSError:
        return 0


async def test_a_service_that_dies_comes_back_at_its_address() -> None:
    async with guarded(None) as home, asyncio.TaskGroup() as owners:
        service = Supervised("thing", command(SERVICE, home), home)
        owners.create_task(service.run())
        first = await service.addresses()
        assert first["grpc"] == "host:1"
        former = pid_of(home)
        os.kill(former, signal.SIGKILL)
        await eventually(lambda: pid_of(home) not in {0, former})
        assert json.loads(home.addresses("thing").read_text())["grpc"] == "host:1"
        await service.stop()
    assert not lives(former)
    assert not home.directory.exists()


async def test_a_service_that_never_served_is_an_error_with_its_last_log_line() -> None:
    async with guarded(None) as home:
        service = Supervised("thing", command(REFUSING, home), home)
        with pytest.raises(ConfigError, match="thing did not start: cache: redis://nowhere does not answer"):
            await service.run()
    assert not home.directory.exists()


async def test_a_service_that_says_why_in_several_lines_is_quoted_and_its_earlier_runs_are_not(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "thing.log").write_text("tlt: of an earlier run\n")
    saying = "import sys; sys.exit('tlt: SGLang did not start: one\\n  two')"
    async with guarded(tmp_path) as home:
        service = Supervised("thing", command(saying, home), home)
        with pytest.raises(ConfigError, match=r"^thing did not start: SGLang did not start: one two$"):
            await service.run()
        silent = Supervised("thing", command("import os; os._exit(3)", home), home)
        with pytest.raises(ConfigError, match=r"^thing did not start: its log is empty$"):
            await silent.run()


async def test_a_service_that_a_signal_ends_is_an_error_that_names_it() -> None:
    killed = "import os, signal; print('allocating', flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    async with guarded(None) as home:
        service = Supervised("thing", command(killed, home), home)
        words = "ended by SIGKILL, as the kernel does when memory is exhausted; last log line: allocating"
        with pytest.raises(ConfigError, match=words):
            await service.run()


async def test_a_service_that_ends_before_the_suite_has_started_is_an_error() -> None:
    brief = SERVICE.replace("time.sleep(600)", "sys.exit('tlt: Redis is gone')")
    async with guarded(None) as home:
        service = Supervised("thing", command(brief, home), home, suite_started=False)
        with pytest.raises(ConfigError, match="thing ended while the suite started: Redis is gone"):
            await service.run()


async def test_where_nothing_may_end_by_itself_a_service_that_does_is_an_error() -> None:
    brief = SERVICE.replace("time.sleep(600)", "sys.exit('ZeroDivisionError: division by zero')")
    async with guarded(None) as home:
        service = Supervised("thing", command(brief, home), home, restarts=False)
        with pytest.raises(UnavailableError, match="thing ended: ZeroDivisionError: division by zero"):
            await service.run()


async def test_that_a_service_was_started_again_can_be_seen_and_whether_somebody_killed_it() -> None:
    async with guarded(None) as home, asyncio.TaskGroup() as owners:
        struck = Supervised("thing", command(SERVICE, home), home)
        owners.create_task(struck.run())
        await struck.addresses()
        os.kill(former := pid_of(home), signal.SIGKILL)
        await eventually(lambda: pid_of(home) not in {0, former})
        assert [(ended.name, ended.failed) for ended in struck.ended] == [("thing", False)]
        await struck.stop()
        assert len(struck.ended) == 1
    assert Ended(name="gateway", why="division by zero", code=1).failed
    assert Ended(name="gateway", why="", code=-signal.SIGSEGV).failed


async def test_a_service_that_may_start_the_next_time_is_started_again() -> None:
    async with guarded(None) as home, asyncio.TaskGroup() as owners:
        spelled = command(BUSY, home)
        service = Supervised("thing", lambda fixed: [*spelled(fixed), str(STARTS)], home)
        owners.create_task(service.run())
        assert (await service.addresses())["grpc"] == "host:1"
        await service.stop()


async def test_a_service_that_never_starts_is_given_up() -> None:
    async with guarded(None) as home:
        spelled = command(BUSY, home)
        service = Supervised("thing", lambda fixed: [*spelled(fixed), str(STARTS + 1)], home)
        with pytest.raises(ConfigError, match="thing did not start: Ray did not start: timed out"):
            await service.run()
        assert (home.logs / "thing.log").read_text().count("timed out") == STARTS


async def test_a_cancelled_owner_kills_at_once_what_does_not_listen() -> None:
    async with guarded(None) as home:
        service = Supervised("thing", command(STUBBORN, home), home)
        owner = asyncio.ensure_future(service.run())
        await service.addresses()
        pid = pid_of(home)
        owner.cancel()
        with pytest.raises(asyncio.CancelledError):
            await owner
        await eventually(lambda: not lives(pid))


async def test_logs_and_data_may_be_kept(tmp_path: Path) -> None:
    async with guarded(tmp_path / "run") as home, asyncio.TaskGroup() as owners:
        service = Supervised("thing", command(SERVICE, home), home)
        owners.create_task(service.run())
        await service.addresses()
        await service.stop()
    assert (tmp_path / "run" / "logs" / "thing.log").read_text() == "serving\n"


OWNER = """
import asyncio, sys
from tlt_local.supervision.home import guarded
from tlt_local.supervision.processes import Supervised

async def main():
    async with guarded(None) as home, asyncio.TaskGroup() as owners:
        # The child hides its environment, as Redis does, and has a child of its own in another session.
        program = '''
import json, os, subprocess, sys
child = subprocess.Popen(["sleep", "600"], start_new_session=True)
with open(sys.argv[1] + ".new", "w") as file:
    json.dump({"pid": os.getpid(), "child": child.pid}, file)
os.replace(sys.argv[1] + ".new", sys.argv[1])
child.wait()
'''
        path = home.addresses("thing")
        service = Supervised("thing", lambda fixed: [sys.executable, "-c", program, str(path)], home)
        owners.create_task(service.run())
        await service.addresses()
        print(home.directory, path.read_text(), sep="|", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_nothing_outlives_an_owner_that_is_killed() -> None:
    owner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", textwrap.dedent(OWNER), stdout=asyncio.subprocess.PIPE
    )
    assert owner.stdout is not None
    async with asyncio.timeout(30):
        directory, text = (await owner.stdout.readline()).decode().split("|")
    pids = json.loads(text)
    owner.kill()
    await owner.wait()
    await eventually(lambda: not lives(pids["pid"]) and not lives(pids["child"]))
    await eventually(lambda: not Path(directory).exists())


def test_a_restart_repeats_every_address_others_may_know() -> None:
    addresses = {"grpc": "127.0.0.1:7", "metrics": "127.0.0.1:8", "http": "127.0.0.1:9", "pid": "5"}
    assert repeated(addresses) == {"listen": "127.0.0.1:7", "metrics_port": "8", "http_listen": "127.0.0.1:9"}


def children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


async def test_a_slow_end_is_no_error_and_goes_on_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tlt_local.supervision.home.CLEAR_S", 0.0)
    before = children()  # of other tests, and of libraries
    async with guarded(None) as home:
        pass
    await eventually(lambda: not home.directory.exists())
    await eventually(lambda: children() <= before)
    await asyncio.sleep(0.05)  # until the loop has closed its pipes
