import json
from collections.abc import Iterable
from pathlib import Path

import pytest

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


def test_a_restart_knows_the_last_workers_until_a_source_says_otherwise(tmp_path: Path) -> None:
    file = tmp_path / "workers.json"
    KnownWorkers(Pool().see, file=file).report("coordinator", ["a:1", "b:1"])
    pool = Pool()
    known = KnownWorkers(pool.see, file=file)
    known.load()
    assert pool.seen == [["a:1", "b:1"]]
    known.report("coordinator", [])
    assert pool.seen[-1] == []
    assert json.loads(file.read_text()) == ["a:1", "b:1"]  # a restarted coordinator lists none at first
    known.report("coordinator", ["c:1"])
    assert json.loads(file.read_text()) == ["c:1"]


@pytest.mark.parametrize("content", ["", "{", "7", "null"])
def test_a_damaged_file_is_ignored(tmp_path: Path, content: str) -> None:
    file = tmp_path / "workers.json"
    file.write_text(content)
    pool = Pool()
    known = KnownWorkers(pool.see, file=file)
    known.load()
    assert pool.seen == []
    known.report("name", ["a:1"])
    assert json.loads(file.read_text()) == ["a:1"]
