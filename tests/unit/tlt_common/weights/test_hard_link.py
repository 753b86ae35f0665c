"""Hard links to another process's spool: what is linked, and what is refused."""

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes.file_systems import refuse_link
from tests.fakes.spools import spools_in
from tlt_common.domain.weights import SpoolFile, TensorChunk
from tlt_common.errors import WeightsUnreadableError
from tlt_common.weights.hard_link import described, link
from tlt_common.weights.layout import FILE_NAME
from tlt_common.weights.piece_log import PieceLog
from tlt_common.weights.spool import Spool

CHUNK = TensorChunk(name="w", dtype="F32", shape=(2,), offset_bytes=0, data=b"12345678")


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    spool = Spool(tmp_path / "source")
    spool.write(CHUNK)
    yield spool
    spool.remove()


def nothing_left(tmp_path: Path) -> bool:
    return not spools_in(tmp_path / "here")


def offered(file: Path) -> SpoolFile:
    found = described(file)
    assert found is not None
    return found


def test_a_link_is_the_same_file_grows_with_it_and_survives_it(spool: Spool, tmp_path: Path) -> None:
    lease = link(tmp_path / "here", offered(spool.file))
    linked = lease.directory / FILE_NAME
    assert linked.samefile(spool.file)
    spool.complete()
    complete = spool.file.read_bytes()
    spool.remove()
    assert linked.read_bytes() == complete
    lease.remove()
    assert nothing_left(tmp_path)


async def test_a_file_that_is_gone_is_not_offered_and_neither_are_files_that_are_not_ours(spool: Spool) -> None:
    spool.remove()
    assert not spools_in(spool.directory.parent)
    assert await spool.log.offer() is None
    assert await PieceLog().offer() is None


def hostile(directory: Path, make: Callable[[Path], object]) -> Path:
    """Return a file that is named like a spool's and is something else."""
    file = directory / "weights-hostile" / FILE_NAME
    file.parent.mkdir(parents=True)
    make(file)
    return file


def followed(file: Path) -> SpoolFile:
    found = file.stat()
    return SpoolFile(path=str(file), device=found.st_dev, inode=found.st_ino)


@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "weights-x/model.safetensors", "/etc/model.safetensors", "", "/weights-\0/model.safetensors"],
)
def test_only_files_named_like_a_spools_are_linked(path: str, tmp_path: Path) -> None:
    with pytest.raises(WeightsUnreadableError, match="cannot be linked"):
        link(tmp_path / "here", SpoolFile(path=path, device=0, inode=0))
    assert nothing_left(tmp_path)


@pytest.mark.parametrize("make", [lambda file: file.symlink_to("/etc/passwd"), os.mkfifo, lambda file: file.mkdir()])
def test_what_is_not_a_regular_file_is_not_linked(make: Callable[[Path], object], tmp_path: Path) -> None:
    file = hostile(tmp_path, make)
    for found in (followed(file), replace(followed(file), inode=file.lstat().st_ino, device=file.lstat().st_dev)):
        with pytest.raises(WeightsUnreadableError):
            link(tmp_path / "here", found)
    assert nothing_left(tmp_path)


def test_a_directory_that_is_a_symbolic_link_is_not_followed(spool: Spool, tmp_path: Path) -> None:
    alias = tmp_path / "weights-alias"
    alias.symlink_to(spool.directory)
    with pytest.raises(WeightsUnreadableError):
        link(tmp_path / "here", replace(offered(spool.file), path=str(alias / FILE_NAME)))


def test_another_file_than_the_one_offered_is_not_linked(spool: Spool, tmp_path: Path) -> None:
    file = offered(spool.file)
    for other in (replace(file, inode=file.inode + 1), replace(file, device=file.device + 1)):
        with pytest.raises(WeightsUnreadableError, match="another file"):
            link(tmp_path / "here", other)
    assert nothing_left(tmp_path)


def test_a_file_that_another_user_could_change_is_not_linked(
    spool: Spool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, user = offered(spool.file), os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: user)
    with pytest.raises(WeightsUnreadableError, match="another user"):
        link(tmp_path / "here", file)


def test_a_file_on_another_file_system_is_refused(
    spool: Spool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", refuse_link)
    with pytest.raises(WeightsUnreadableError, match="cross-device"):
        link(tmp_path / "here", offered(spool.file))
    assert nothing_left(tmp_path)
    shutil.rmtree(spool.directory)
    with pytest.raises(WeightsUnreadableError):
        link(tmp_path / "here", SpoolFile(path=str(spool.file), device=0, inode=0))
