import asyncio
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
from tlt_worker.drafters import Drafters

pytestmark = pytest.mark.looptime


@dataclass
class Bench:
    folder: Path
    engine: FakeEngine = field(default_factory=FakeEngine)
    activity: Activity = field(default_factory=Activity)
    changes: Changes = field(default_factory=Changes)
    drafters: Drafters = field(init=False)

    def __post_init__(self) -> None:
        self.drafters = Drafters(self.engine, self.changes, self.activity)

    def wish(self, version: int) -> DrafterWish:
        directory = self.folder / str(version)
        directory.mkdir(exist_ok=True)
        (directory / "model.safetensors").write_bytes(b"x")
        return DrafterWish(version=DrafterVersion(version), uri=str(directory))

    async def settled(self, version: int) -> None:
        """Wait until wishes are fulfilled; a repeat waits for what is under way."""
        while self.drafters.version != version:  # noqa: ASYNC110 - virtual time costs nothing
            await asyncio.sleep(0.1)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    bench = Bench(tmp_path)
    await bench.engine.start()
    async with asyncio.TaskGroup() as parts:
        tasks = [parts.create_task(bench.changes.run()), parts.create_task(bench.drafters.run())]
        yield bench
        for task in tasks:
            task.cancel()


async def test_a_wish_is_loaded(bench: Bench) -> None:
    bench.drafters.wish(bench.wish(1))
    await bench.settled(1)
    assert bench.engine.drafter_version == 1


async def test_only_the_newest_of_several_wishes_is_loaded_after_the_running_one(bench: Bench) -> None:
    bench.engine.gate.clear()
    bench.drafters.wish(bench.wish(1))
    await bench.engine.loading.wait()
    for version in (2, 4, 3):
        bench.drafters.wish(bench.wish(version))
    bench.engine.gate.set()
    await bench.settled(4)
    assert [path.name for path in bench.engine.loaded] == ["1", "4"]


async def test_an_older_drafter_is_refused_and_an_equal_one_is_a_repeat(bench: Bench) -> None:
    await bench.drafters.apply(bench.wish(3))
    assert await bench.drafters.apply(bench.wish(3)) == 0.0
    with pytest.raises(StaleVersionError, match="above 3"):
        await bench.drafters.apply(bench.wish(2))
    assert len(bench.engine.loaded) == 1


async def test_a_drafter_that_does_not_load_leaves_the_one_before(bench: Bench) -> None:
    await bench.drafters.apply(bench.wish(1))
    bench.engine.bad_directories.add(bench.folder / "2")
    with pytest.raises(WeightsError):
        await bench.drafters.apply(bench.wish(2))
    bench.drafters.wish(bench.wish(2))
    bench.drafters.wish(DrafterWish(version=DrafterVersion(3), uri="/nowhere"))
    bench.drafters.wish(bench.wish(4))
    await bench.settled(4)
    assert [path.name for path in bench.engine.loaded] == ["1", "4"]


async def test_a_wish_that_failed_may_be_repeated(bench: Bench) -> None:
    bad = bench.wish(1)
    bench.engine.bad_directories.add(Path(bad.uri))
    bench.drafters.wish(bad)
    await bench.engine.loading.wait()
    await asyncio.sleep(1)
    bench.engine.bad_directories.clear()
    bench.drafters.wish(bad)
    await bench.settled(1)
