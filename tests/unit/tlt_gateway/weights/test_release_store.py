"""Releases that an earlier process left on disk, and what fits there."""

import json
from pathlib import Path

import pytest

from tlt_common.domain.ids import PolicyVersion
from tlt_common.domain.weights import ReleaseId, TensorChunk
from tlt_common.errors import WeightsError
from tlt_common.weights.layout import FILE_NAME
from tlt_common.weights.spool import Spool
from tlt_gateway.weights.release import Release
from tlt_gateway.weights.release_store import MANIFEST, ReleaseStore


def kept(directory: Path, version: int = 3) -> Path:
    """Leave a release behind, as a process that ends does; return its directory."""
    spool = Spool(directory)
    spool.write(TensorChunk(name="a", dtype="F32", shape=(2,), offset_bytes=0, data=b"12345678"))
    spool.complete()
    release = Release(id=ReleaseId(version=PolicyVersion(version), key="k"), spool=spool.locked, log=spool.log)
    ReleaseStore(directory, shared=False).keep(release).release()
    return spool.directory


def test_what_was_served_is_found_again(tmp_path: Path) -> None:
    kept(tmp_path)
    (found,) = ReleaseStore(tmp_path, shared=False).recover()
    assert (found.id.version, found.log is not None and len(found.log)) == (3, 1)
    found.release()


@pytest.mark.parametrize("damage", ["missing", "cut", "header", "manifest", "kind"])
def test_a_damaged_release_is_deleted_and_ends_nothing(tmp_path: Path, damage: str) -> None:
    directory = kept(tmp_path)
    file = directory / FILE_NAME
    match damage:
        case "missing":
            file.unlink()
        case "cut":
            file.write_bytes(file.read_bytes()[:-1])
        case "header":
            file.write_bytes(b"\xff" * 100)
        case "manifest":
            (directory / MANIFEST).write_bytes(b"{")
        case "kind":
            (directory / MANIFEST).write_text(json.dumps([3]))
    assert ReleaseStore(tmp_path, shared=False).recover() == ()
    assert not directory.exists()


def test_the_smallest_bound_counts(tmp_path: Path) -> None:
    assert ReleaseStore(tmp_path, shared=False, max_bytes=100).limit() == (100, "on any volume")
    assert ReleaseStore(tmp_path, shared=False, max_bytes=100, volume_bytes=90).limit()[0] == 45
    limit, why = ReleaseStore(tmp_path / "to come" / "spool", shared=False, max_bytes=2**70).limit()
    assert 0 < limit < 2**60
    assert "free" in why


def test_what_does_not_fit_is_refused_with_both_figures(tmp_path: Path) -> None:
    store = ReleaseStore(tmp_path, shared=False, max_bytes=1000, volume_bytes=900)
    store.require_space(450)
    with pytest.raises(WeightsError, match=r"451 bytes; the maximum is 450, half of the volume .*spool_bytes"):
        store.require_space(451)
