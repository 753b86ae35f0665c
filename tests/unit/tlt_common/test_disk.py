"""Work on disks keeps nothing else waiting."""

import asyncio
import threading
from pathlib import Path

from tests.fakes.spools import disks_idle
from tlt_common.disk import THREADS, await_removals, on_disk, remove_beside


async def test_a_hung_volume_leaves_threads_for_what_computes() -> None:
    hangs = threading.Event()
    waiting = [asyncio.ensure_future(on_disk(hangs.wait)) for _ in range(4 * THREADS)]
    try:
        assert await asyncio.to_thread(lambda: "computed") == "computed"
    finally:
        hangs.set()
    assert all(await asyncio.gather(*waiting))


async def test_what_is_removed_beside_a_loop_does_not_hold_it(tmp_path: Path) -> None:
    hangs = threading.Event()

    def remove() -> None:
        hangs.wait()
        (tmp_path / "file").unlink()

    remove_beside(tmp_path, remove)
    (tmp_path / "file").touch()
    hangs.set()
    await on_disk(await_removals, tmp_path)
    assert not (tmp_path / "file").exists()
    await disks_idle()


def test_without_a_loop_it_is_removed_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    remove_beside(tmp_path, (tmp_path / "file").unlink)
    assert not (tmp_path / "file").exists()
