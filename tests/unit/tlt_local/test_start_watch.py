"""What is said while a run starts."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from tlt_common.errors import ConfigError
from tlt_common.start_phase import enter, phase_file
from tlt_local.supervision.home import Home
from tlt_local.supervision.start_watch import LOOK_S, QUIET_S, StartWatch

pytestmark = pytest.mark.looptime
LOADING_S = 9.0


class Starting:
    """A run without processes: the test writes their files."""

    def __init__(self, directory: Path) -> None:
        self.home = Home(directory=directory, data=directory, token="run", leave=lambda: None)  # noqa: S106 - a marker
        self.said: list[str] = []
        self.at_s: list[float] = []
        self.why = ""

    def watch(self) -> StartWatch:
        return StartWatch(self.home, self.say, lambda: self.why)

    def say(self, line: str) -> None:
        self.said.append(line)
        self.at_s.append(asyncio.get_running_loop().time())

    def enters(self, name: str, phase: str) -> None:
        enter(phase, phase_file(self.home.addresses(name)))

    def serves(self, name: str) -> None:
        self.home.addresses(name).parent.mkdir(exist_ok=True)
        self.home.addresses(name).write_text("{}")


@pytest.fixture
def starting(tmp_path: Path) -> Starting:
    return Starting(tmp_path)


async def for_seconds(watch: StartWatch, seconds: float, *, then: Callable[[], object] = lambda: None) -> None:
    task = asyncio.create_task(watch.run())
    await asyncio.sleep(seconds)
    then()
    await asyncio.sleep(2 * LOOK_S)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_part_that_serves_is_said_to_be_ready_with_its_seconds(starting: Starting) -> None:
    watch = starting.watch()
    watch.expect("cache")
    await for_seconds(watch, 3.0, then=lambda: starting.serves("cache"))
    assert starting.said == ["cache is ready (3 s)"]


async def test_a_start_is_never_silent_and_says_what_is_waited_for(starting: Starting) -> None:
    watch = starting.watch()
    for rank in range(2):
        watch.expect(f"worker-{rank}", host="workers", phase="importing Ray")
    await for_seconds(watch, LOADING_S, then=lambda: starting.enters("worker-1", "loading the weights"))
    await for_seconds(watch, LOADING_S)
    assert starting.said == [
        "waiting for worker-0, worker-1: importing Ray (8 s)",
        "waiting for worker-0: importing Ray (16 s), and for worker-1: loading the weights (7 s)",
    ]
    assert (
        max(after - before for before, after in zip([0.0, *starting.at_s], starting.at_s, strict=False)) < 2 * QUIET_S
    )


async def test_a_worker_that_has_not_begun_is_in_the_phase_of_the_process_that_starts_it(starting: Starting) -> None:
    watch = starting.watch()
    watch.expect("worker-0", host="workers")
    starting.enters("workers", "starting Ray")
    await for_seconds(watch, QUIET_S)
    assert starting.said == ["waiting for worker-0: starting Ray (8 s)"]


async def test_a_start_without_open_parts_says_nothing(starting: Starting) -> None:
    await for_seconds(starting.watch(), 60.0)
    assert not starting.said


async def test_a_worker_that_fails_ends_the_start_at_once(starting: Starting) -> None:
    watch = starting.watch()
    watch.expect("worker-0")
    running = asyncio.create_task(watch.run())
    await asyncio.sleep(LOADING_S)
    starting.why = "worker-0: out of memory"
    with pytest.raises(ConfigError, match="workers did not start: worker-0: out of memory"):
        await running
    assert asyncio.get_running_loop().time() <= LOADING_S + LOOK_S


async def test_what_is_waited_for_besides_processes_is_said_until_it_is_done(starting: Starting) -> None:
    watch = starting.watch()
    watch.expect("drafter", phase="workers load it")
    await for_seconds(watch, QUIET_S)
    watch.done("drafter")
    watch.done("drafter")
    assert starting.said == ["waiting for drafter: workers load it (8 s)", "drafter is ready (8 s)"]
