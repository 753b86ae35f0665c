import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.fakes.spools import disks_idle
from tlt_gateway.workers.discovery import KnownWorkers


class Pool:
    def __init__(self) -> None:
        self.seen: list[list[str]] = []

    def see(self, addresses: Iterable[str]) -> None:
        self.seen.append(sorted(addresses))


def test_sources_add_up_and_each_replaces_only_its_own() -> None:
    pool = Pool()
    known = KnownWorkers(pool.see)
    known.report("coordinator", ["a:1", "b:1"])
    known.report("name", ["b:1", "c:1"])
    known.report("coordinator", ["a:1"])
    known.report("coordinator", ["a:1"])
    assert pool.seen == [["a:1", "b:1"], ["a:1", "b:1", "c:1"]]
    known.report("name", [])
    assert pool.seen[-1] == ["a:1"]


@asynccontextmanager
async def running(known: KnownWorkers) -> AsyncIterator[None]:
    task = asyncio.ensure_future(known.run())
    await disks_idle()
    yield
    await disks_idle()
    task.cancel()
    await asyncio.wait({task})


async def test_a_restart_knows_the_last_workers_until_a_source_says_otherwise(tmp_path: Path) -> None:
    file = tmp_path / "workers.json"
    first = KnownWorkers(Pool().see, file=file)
    async with running(first):
        first.report("coordinator", ["a:1", "b:1"])
    pool = Pool()
    known = KnownWorkers(pool.see, file=file)
    async with running(known):
        assert pool.seen == [["a:1", "b:1"]]
        known.report("coordinator", [])
        assert pool.seen[-1] == []
        await disks_idle()
        assert json.loads(file.read_text()) == ["a:1", "b:1"]  # a restarted coordinator lists none at first
        known.report("coordinator", ["c:1"])
    assert json.loads(file.read_text()) == ["c:1"]


async def test_what_a_source_said_is_newer_than_the_file(tmp_path: Path) -> None:
    file = tmp_path / "workers.json"
    file.write_text('["old:1"]')
    pool = Pool()
    known = KnownWorkers(pool.see, file=file)
    known.report("coordinator", ["a:1"])
    async with running(known):
        pass
    assert pool.seen == [["a:1"]]


@pytest.mark.parametrize("content", ["", "{", "7", "null"])
async def test_a_damaged_file_is_ignored(tmp_path: Path, content: str) -> None:
    file = tmp_path / "workers.json"
    file.write_text(content)
    pool = Pool()
    known = KnownWorkers(pool.see, file=file)
    async with running(known):
        assert pool.seen == []
        known.report("name", ["a:1"])
    assert json.loads(file.read_text()) == ["a:1"]
