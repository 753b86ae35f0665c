from pathlib import Path
from typing import Never

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from tlt_common.errors import WeightsError
from tlt_worker.source import directory_of, fetch, is_remote, located


@pytest.fixture
def bucket(request: pytest.FixtureRequest) -> str:
    """A checkpoint in an object store: fsspec's own, in memory."""
    name = f"/{request.node.name}"
    store = fsspec.filesystem("memory")
    for file, content in {"config.json": b"{}", "model.safetensors": b"weights", "extra/notes.txt": b"n"}.items():
        store.pipe_file(f"{name}/{file}", content)
    return f"memory:/{name}"


def test_a_remote_checkpoint_arrives_whole(bucket: str, tmp_path: Path) -> None:
    directory = fetch(bucket, tmp_path / "model")
    assert (directory / "model.safetensors").read_bytes() == b"weights"
    assert (directory / "extra" / "notes.txt").read_bytes() == b"n"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_what_is_there_already_stays(bucket: str, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.safetensors").write_bytes(b"mine")
    fetch(bucket, tmp_path / "model")
    assert (tmp_path / "model" / "model.safetensors").read_bytes() == b"mine"


def test_an_empty_volume_is_filled(bucket: str, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    assert (fetch(bucket, tmp_path / "model") / "config.json").exists()


@pytest.mark.parametrize("uri", ["memory://nobody", "gopher://host/model", "/no/such/directory"])
def test_what_cannot_be_had_is_named_and_leaves_nothing(uri: str, tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=uri.rpartition("/")[2]) as refusal:
        fetch(uri, tmp_path / "model")
    assert refusal.value.field == "source.uri"
    assert not list(tmp_path.iterdir())


class Unreachable(MemoryFileSystem):  # type: ignore[misc] # fsspec is untyped
    """A store whose client library fails in its own way."""

    protocol = "unreachable"

    def find(self, *_: object, **__: object) -> Never:
        raise ArithmeticError("no route")


def test_a_stores_own_error_is_told_as_ours(tmp_path: Path) -> None:
    fsspec.register_implementation("unreachable", Unreachable, clobber=True)
    with pytest.raises(WeightsError, match=r"cannot be copied to .*no route"):
        fetch("unreachable://bucket/model", tmp_path / "model")


def test_local_directories_are_read_where_they_are(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"x")
    assert located(str(tmp_path), tmp_path / "copy") == directory_of(f"file://{tmp_path}") == tmp_path
    assert not is_remote(str(tmp_path))
    assert is_remote("s3://bucket/model")


@pytest.mark.parametrize("uri", ["model", "file://elsewhere/model"])
def test_a_path_that_means_something_else_elsewhere_is_refused(uri: str) -> None:
    with pytest.raises(WeightsError, match="accepted: an absolute path"):
        directory_of(uri)
