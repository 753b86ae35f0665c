import asyncio
import errno
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.fakes.engine import FakeEngine
from tlt_common.changes import Changes
from tlt_common.domain.fleet import DrafterWish
from tlt_common.domain.ids import DrafterVersion
from tlt_common.errors import StaleVersionError, WeightsError
from tlt_worker.activity import Activity
from tlt_worker.speculation.served_drafter import ServedDrafter
from tlt_worker.weights.source import WeightSources

pytestmark = pytest.mark.looptime


@dataclass
class Bench:
    folder: Path
    engine: FakeEngine = field(default_factory=FakeEngine)
    activity: Activity = field(default_factory=Activity)
    changes: Changes = field(default_factory=Changes)
    drafters: ServedDrafter = field(init=False)

    def __post_init__(self) -> None:
        self.drafter = ServedDrafter(self.engine, self.changes, self.activity, WeightSources())

    def wish(self, version: int) -> DrafterWish:
        directory = self.folder / str(version)
        directory.mkdir(exist_ok=True)
        (directory / "model.safetensors").write_bytes(b"x")
        return DrafterWish(version=DrafterVersion(version), uri=str(directory))

    async def settled(self, version: int) -> None:
        """Wait until wishes are fulfilled; a repeat waits for what is under way."""
        while self.drafter.version != version:  # noqa: ASYNC110 - virtual time costs nothing
            await asyncio.sleep(0.1)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    bench = Bench(tmp_path)
    await bench.engine.start()
    async with asyncio.TaskGroup() as parts:
        tasks = [parts.create_task(bench.changes.run()), parts.create_task(bench.drafter.run())]
        yield bench
        for task in tasks:
            task.cancel()


async def test_only_the_newest_of_several_wishes_is_loaded_after_the_running_one(bench: Bench) -> None:
    bench.engine.gate.clear()
    bench.drafter.wish(bench.wish(1))
    await bench.engine.loading.wait()
    for version in (2, 4, 3):
        bench.drafter.wish(bench.wish(version))
    bench.engine.gate.set()
    await bench.settled(4)
    assert [path.name for path in bench.engine.loaded] == ["1", "4"]


async def test_an_older_drafter_is_refused_and_an_equal_one_is_a_repeat(bench: Bench) -> None:
    await bench.drafter.apply(bench.wish(3))
    assert await bench.drafter.apply(bench.wish(3)) == 0.0
    with pytest.raises(StaleVersionError, match="above 3"):
        await bench.drafter.apply(bench.wish(2))
    assert len(bench.engine.loaded) == 1


async def test_a_drafter_that_does_not_load_leaves_the_one_before(bench: Bench) -> None:
    await bench.drafter.apply(bench.wish(1))
    bench.engine.bad_directories.add(bench.folder / "2")
    with pytest.raises(WeightsError):
        await bench.drafter.apply(bench.wish(2))
    bench.drafter.wish(bench.wish(2))
    bench.drafter.wish(DrafterWish(version=DrafterVersion(3), uri="/nowhere"))
    bench.drafter.wish(bench.wish(4))
    await bench.settled(4)
    assert [path.name for path in bench.engine.loaded] == ["1", "4"]


async def test_a_drafter_that_could_not_be_read_is_loaded_once_the_cause_is_gone(bench: Bench) -> None:
    bench.drafter.wish(DrafterWish(version=DrafterVersion(1), uri=str(bench.folder / "1")))
    await asyncio.sleep(1000)
    assert bench.drafter.version == 0
    bench.wish(1)
    await bench.settled(1)
    assert bench.engine.loaded == [bench.folder / "1"]


async def test_a_drafter_that_failed_is_tried_at_once_when_it_is_offered_again(bench: Bench) -> None:
    wish = DrafterWish(version=DrafterVersion(1), uri=str(bench.folder / "1"))
    bench.drafter.wish(wish)
    await asyncio.sleep(1000)
    bench.drafter.wish(bench.wish(1))
    loop = asyncio.get_running_loop()
    asked_at_s = loop.time()
    await bench.settled(1)
    assert loop.time() - asked_at_s < 0.2


async def test_a_refused_drafter_is_not_read_again_until_its_files_change(bench: Bench) -> None:
    bad = bench.wish(1)
    bench.engine.bad_directories.add(Path(bad.uri))
    bench.drafter.wish(bad)
    await asyncio.sleep(100)
    assert bench.engine.refused == [Path(bad.uri)]
    for _ in range(50):
        await asyncio.sleep(100)
        bench.drafter.wish(bad)  # a new stream offers it again
    assert bench.engine.refused == [Path(bad.uri)]
    assert bench.drafter.problem.startswith("drafter v1 is not loaded: ")
    bench.engine.bad_directories.clear()
    (Path(bad.uri) / "model.safetensors").write_bytes(b"another one")
    await bench.settled(1)
    assert bench.engine.loaded == [Path(bad.uri)]
    assert bench.drafter.problem == ""


async def test_a_drafter_that_cannot_be_read_ten_thousand_times_ends_nothing(bench: Bench) -> None:
    bench.drafter.wish(DrafterWish(version=DrafterVersion(1), uri="/nowhere"))
    await asyncio.sleep(10_000 * 75.0)  # at most 75 s between attempts
    bench.drafter.wish(bench.wish(2))
    await bench.settled(2)


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "no space left on device"), RuntimeError("the link broke")])
async def test_nothing_that_goes_wrong_in_a_swap_ends_the_worker(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_args: object, **_kwargs: object) -> None:
        raise error

    with monkeypatch.context() as broken:
        broken.setattr(tempfile, "mkdtemp", fail)
        bench.drafter.wish(bench.wish(1))
        await asyncio.sleep(100)
        assert bench.drafter.version == 0
    await bench.settled(1)


async def test_an_attempt_gives_way_to_a_newer_drafter(bench: Bench) -> None:
    bench.drafter.wish(DrafterWish(version=DrafterVersion(1), uri="/nowhere"))
    await asyncio.sleep(100)
    bench.drafter.wish(bench.wish(2))
    await bench.settled(2)
    await asyncio.sleep(1000)
    assert [path.name for path in bench.engine.loaded] == ["2"]
