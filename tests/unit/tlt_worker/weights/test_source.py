from pathlib import Path
from typing import Never

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from tlt_common.errors import WeightsError, WeightsUnreadableError
from tlt_worker.weights.source import WeightSources, is_remote

SOURCES = WeightSources(prefixes=("/", "memory://", "gopher://", "unreachable://", "hostile://"))


@pytest.fixture
def bucket(request: pytest.FixtureRequest) -> str:
    """A checkpoint in an object store: fsspec's own, in memory."""
    name = f"/{request.node.name}"
    store = fsspec.filesystem("memory")
    for file, content in {
        "config.json": b"{}",
        "model.safetensors": b"weights",
        "extra/notes.txt": b"n",
        "modeling.py": b"code",
    }.items():
        store.pipe_file(f"{name}/{file}", content)
    return f"memory:/{name}"


def test_a_remote_checkpoint_arrives_whole(bucket: str, tmp_path: Path) -> None:
    directory = SOURCES.fetch(bucket, tmp_path / "model")
    assert (directory / "model.safetensors").read_bytes() == b"weights"
    assert sorted(path.name for path in directory.iterdir()) == ["config.json", "model.safetensors"]
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_what_is_there_already_stays(bucket: str, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.safetensors").write_bytes(b"mine")
    SOURCES.fetch(bucket, tmp_path / "model")
    assert (tmp_path / "model" / "model.safetensors").read_bytes() == b"mine"


def test_an_empty_volume_is_filled(bucket: str, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    assert (SOURCES.fetch(bucket, tmp_path / "model") / "config.json").exists()


@pytest.mark.parametrize("uri", ["memory://nobody", "gopher://host/model", "/no/such/directory"])
def test_what_cannot_be_had_is_named_and_leaves_nothing(uri: str, tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=uri.rpartition("/")[2]) as refusal:
        SOURCES.fetch(uri, tmp_path / "model")
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
        SOURCES.fetch("unreachable://bucket/model", tmp_path / "model")


def test_local_directories_are_read_where_they_are(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"x")
    assert SOURCES.located(str(tmp_path), tmp_path / "copy") == SOURCES.directory_of(f"file://{tmp_path}") == tmp_path
    assert not is_remote(str(tmp_path))
    assert is_remote("s3://bucket/model")


@pytest.mark.parametrize("uri", ["model", "file://elsewhere/model"])
def test_a_path_that_means_something_else_elsewhere_is_refused(uri: str) -> None:
    with pytest.raises(WeightsError, match="accepted: an absolute path"):
        SOURCES.directory_of(uri)


class Hostile(MemoryFileSystem):  # type: ignore[misc] # fsspec is untyped
    """A store whose listing names files outside the directory, as a web server's may."""

    protocol = "hostile"
    size = 4

    def find(self, path: str, **_: object) -> dict[str, dict[str, int]]:
        return {f"{path}/model.safetensors": {"size": self.size}, f"{path}/../../outside.json": {"size": 4}}

    def get_file(self, _name: str, target: str, **_: object) -> None:
        Path(target).write_bytes(b"file")


@pytest.fixture
def hostile() -> str:
    fsspec.register_implementation("hostile", Hostile, clobber=True)
    return "hostile://bucket/model"


def test_files_stay_inside_the_target_whatever_a_store_lists(hostile: str, tmp_path: Path) -> None:
    target = tmp_path / "deep" / "model"
    SOURCES.fetch(hostile, target)
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["model.safetensors", "outside.json"]
    assert {path.parent for path in tmp_path.rglob("*") if path.is_file()} == {target}


def test_more_bytes_than_accepted_are_refused_before_any_is_copied(hostile: str, tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="has 8 bytes; the maximum is 7"):
        WeightSources(prefixes=("hostile://",), max_bytes=7).fetch(hostile, tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_a_disk_without_room_is_the_workers_own_trouble(
    hostile: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Hostile, "size", 2**40)
    with pytest.raises(WeightsUnreadableError, match="free"):
        SOURCES.fetch(hostile, tmp_path / "model")


@pytest.mark.parametrize(
    "uri",
    ["http://host/model", "https://host/model", "s3://other/model", "s3://mine/../other", "s3://mine/a::http://host/b"],
)
def test_sources_that_are_not_listed_are_refused(uri: str, tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=r"accepted: .*s3://mine/"):
        WeightSources(prefixes=("s3://mine/",)).located(uri, tmp_path / "copy")


def test_a_path_is_judged_by_where_it_leads(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for directory in (inside, outside):
        directory.mkdir()
        (directory / "model.safetensors").write_bytes(b"x")
    (inside / "link").symlink_to(outside)
    sources = WeightSources(prefixes=(str(inside),))
    assert sources.located(str(inside), tmp_path / "copy") == inside
    for uri in (outside.as_uri(), f"{inside}/../outside", str(inside / "link")):
        with pytest.raises(WeightsError, match="accepted"):
            sources.located(uri, tmp_path / "copy")


class Cutting(MemoryFileSystem):  # type: ignore[misc] # fsspec is untyped
    """A store whose downloads end early without an error."""

    protocol = "cutting"

    def find(self, *_: object, **__: object) -> dict[str, dict[str, object]]:
        return {"/model/model.safetensors": {"name": "/model/model.safetensors", "size": 9, "type": "file"}}

    def get_file(self, _: str, to: str, **__: object) -> None:
        Path(to).write_bytes(b"half")


def test_a_copy_that_was_cut_short_is_not_taken_for_weights_that_do_not_fit(tmp_path: Path) -> None:
    fsspec.register_implementation("cutting", Cutting, clobber=True)
    with pytest.raises(WeightsUnreadableError, match="9 bytes, its copy 4"):
        WeightSources(prefixes=("cutting://",)).fetch("cutting://model", tmp_path / "model")


def test_a_fingerprint_changes_with_the_files_and_only_then(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"x")
    before = SOURCES.fingerprint(str(tmp_path))
    assert SOURCES.fingerprint(f"file://{tmp_path}") == before
    (tmp_path / "model.safetensors").write_bytes(b"xy")
    assert SOURCES.fingerprint(str(tmp_path)) != before
