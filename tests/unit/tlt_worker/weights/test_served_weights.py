import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import fsspec
import pytest
import torch
from safetensors.torch import save, save_file

from tests.unit.tlt_worker.weights_bench import CHUNK, Bench, release, running
from tlt_common.domain.fleet import WorkerState
from tlt_common.domain.weights import StageOrder, TensorChunk
from tlt_common.errors import (
    InvalidRequestError,
    StaleVersionError,
    WeightsError,
)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with running(tmp_path / "weights") as bench:
        yield bench


def directory(path: Path) -> Path:
    path.mkdir()
    save_file({"lm_head": torch.ones(2)}, path / "model.safetensors")
    return path


async def test_weights_that_diverged_are_refused_by_name_however_they_come(bench: Bench, tmp_path: Path) -> None:
    path = directory(tmp_path / "one")
    await bench.stage(1, (), str(path))
    await bench.commit(1)
    values = torch.tensor([1.0, float("nan")])
    save_file({"lm_head": values}, path / "model.safetensors")
    bad = TensorChunk(name="lm_head", dtype="F32", shape=(2,), offset_bytes=0, data=values.numpy().tobytes())
    for source in ({"chunks": (), "uri": str(path)}, {"chunks": (bad,)}):
        with pytest.raises(WeightsError, match="tensor lm_head has values that are not finite"):
            await bench.stage(2, **source)
        assert bench.weights.version == 1
        assert bench.spools == []
    await bench.stage(2)
    await bench.commit(2)


async def test_streamed_weights_become_a_safetensors_file_the_engine_is_given(bench: Bench) -> None:
    assert await bench.stage(1) > 0
    assert bench.weights.version == 0
    assert await bench.commit(1) == 0.002
    assert (bench.weights.version, bench.made_way) == (1, 1)
    (file,) = bench.engine.loaded[0].glob("*.safetensors")
    content = file.read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    assert header == {"lm_head": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}


async def test_weights_are_taken_from_a_path_or_file_uri_and_left_there(bench: Bench, tmp_path: Path) -> None:
    one, two = directory(tmp_path / "one"), directory(tmp_path / "two two")
    await bench.stage(1, (), str(one))
    await bench.commit(1)
    await bench.stage(2, (), two.as_uri())
    await bench.commit(2)
    assert bench.engine.loaded == [one, two]
    assert bench.weights.directory == two
    assert one.is_dir()


async def test_old_spools_are_removed_when_newer_weights_are_served(bench: Bench) -> None:
    for version in (1, 2, 3):
        await bench.stage(version)
        await bench.commit(version)
    assert bench.spools == [bench.weights.directory]
    bench.weights.close()
    assert bench.spools == []


async def test_staging_again_forgets_what_was_staged(bench: Bench) -> None:
    await bench.stage(1)
    await bench.stage(2)
    assert len(bench.spools) == 1
    with pytest.raises(StaleVersionError, match="staged is 2"):
        await bench.commit(1)
    await bench.commit(2)


async def test_discarding_another_version_changes_nothing(bench: Bench) -> None:
    await bench.stage(2)
    await bench.weights.discard(release(1))
    assert len(bench.spools) == 1
    await bench.weights.discard(release(2))
    assert bench.spools == []
    with pytest.raises(StaleVersionError, match="staged is none"):
        await bench.commit(2)


@pytest.mark.parametrize("version", [0, 2])
async def test_a_version_that_is_not_newer_is_refused(bench: Bench, version: int) -> None:
    await bench.stage(3)
    await bench.commit(3)
    with pytest.raises(StaleVersionError, match="above 3"):
        await bench.stage(version)


async def test_repeating_a_commit_is_harmless(bench: Bench) -> None:
    await bench.stage(1)
    bench.engine.gate.clear()
    async with asyncio.TaskGroup() as callers:
        both = [callers.create_task(bench.commit(1)) for _ in range(2)]
        await asyncio.sleep(0)
        bench.engine.gate.set()
    assert [caller.result() for caller in both] == [0.002, 0.0]
    assert await bench.commit(1) == 0.0
    assert len(bench.engine.loaded) == 1


async def test_a_caller_that_hangs_up_does_not_interrupt_the_switch(bench: Bench) -> None:
    await bench.stage(1)
    bench.engine.gate.clear()
    caller = asyncio.ensure_future(bench.commit(1))
    await bench.engine.loading.wait()
    assert bench.activity.state is WorkerState.UPDATING
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    bench.engine.gate.set()
    assert await bench.commit(1) == 0.0  # after the one before, which went on to its end
    assert bench.weights.version == 1


async def test_weights_the_engine_refuses_leave_everything_as_it_was(bench: Bench, tmp_path: Path) -> None:
    bad = directory(tmp_path / "bad")
    bench.engine.bad_directories.add(bad)
    with pytest.raises(WeightsError, match="another shape"):
        await bench.stage(1, (), str(bad))
    with pytest.raises(StaleVersionError):
        await bench.commit(1)
    assert bench.weights.version == 0


async def test_a_switch_the_engine_refuses_after_all_keeps_the_served_version(bench: Bench) -> None:
    await bench.stage(1)
    await bench.commit(1)
    await bench.stage(2)
    bench.engine.bad_directories.update(bench.spools)
    with pytest.raises(WeightsError):
        await bench.commit(2)
    assert bench.weights.version == 1
    assert bench.activity.state is WorkerState.IDLE
    assert bench.spools == [bench.weights.directory]


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("http://host/step", "accepted: an absolute path"),
        ("relative/dir", "accepted: an absolute path"),
        ("/nowhere/at/all", "not a directory"),
    ],
)
async def test_a_source_that_cannot_be_read_names_the_field(bench: Bench, uri: str, message: str) -> None:
    with pytest.raises(WeightsError, match=message) as refusal:
        await bench.stage(1, (), uri)
    assert refusal.value.field == "source.uri"


async def test_a_directory_without_weights_is_refused(bench: Bench, tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=r"no \*.safetensors"):
        await bench.stage(1, (), str(tmp_path))


async def test_tensors_after_a_named_source_are_refused(bench: Bench, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match="either a source or tensors"):
        await bench.stage(1, (CHUNK,), str(directory(tmp_path / "weights-1")))


async def test_a_stream_that_breaks_leaves_no_file(bench: Bench) -> None:
    async def broken() -> AsyncIterator[TensorChunk]:
        yield CHUNK
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await bench.weights.stage(StageOrder(release=release(1)), broken())
    assert bench.spools == []
    with pytest.raises(WeightsError, match="no tensor"):
        await bench.stage(1, ())
    assert bench.spools == []


async def test_weights_of_an_object_store_are_copied_and_the_copy_goes_with_them(bench: Bench) -> None:
    store = fsspec.filesystem("memory")
    for version in (1, 2):
        store.pipe_file(f"/policy/{version}/model.safetensors", save({"lm_head": torch.ones(2)}))
    for version in (1, 2):
        await bench.stage(version, chunks=(), uri=f"memory://policy/{version}")
        await bench.commit(version)
        assert bench.spools == [bench.weights.directory.parent]
    bench.weights.close()
    assert not bench.spools
