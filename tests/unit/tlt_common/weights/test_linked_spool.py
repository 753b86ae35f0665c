"""A release that arrives in a linked file."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes.spools import disks_idle, spools_in
from tlt_common.domain.weights import ReleaseEnd, TensorChunk, WrittenPiece
from tlt_common.errors import UnavailableError, WeightsError, WeightsUnreadableError
from tlt_common.weights.spool import Spool

A = TensorChunk(name="a", dtype="F32", shape=(2,), offset_bytes=0, data=b"aaaa")
B = TensorChunk(name="b", dtype="BF16", shape=(), offset_bytes=0, data=b"bb")
MORE = replace(A, offset_bytes=4, data=b"AAAA")
CHUNKS = (A, B, MORE)


async def stream(*chunks: TensorChunk) -> AsyncIterator[TensorChunk]:
    for chunk in chunks:
        yield chunk


async def parts(*parts: WrittenPiece | ReleaseEnd) -> AsyncIterator[WrittenPiece | ReleaseEnd]:
    for part in parts:
        yield part


def written(chunk: TensorChunk) -> WrittenPiece:
    return WrittenPiece(
        name=chunk.name,
        dtype=chunk.dtype,
        shape=chunk.shape,
        offset_bytes=chunk.offset_bytes,
        size_bytes=chunk.size_bytes,
    )


@pytest.fixture
async def source(tmp_path: Path) -> AsyncIterator[Spool]:
    source = await Spool.begin(tmp_path / "source", max_bytes=100)
    yield source
    source.discard("the test is over")


LEASES = list[Spool]()


@pytest.fixture(autouse=True)
def _released() -> Iterator[None]:
    yield
    while LEASES:
        LEASES.pop().discard("the test is over")


async def linked_to(source: Spool, tmp_path: Path, *, max_bytes: int = 100) -> Spool:
    file = await source.log.offer()
    assert file is not None
    linked = await Spool.begin(tmp_path / "linked", max_bytes=max_bytes, source=file)
    LEASES.append(linked)
    return linked


async def test_a_linked_release_is_complete_when_its_source_is_and_has_its_digest(
    source: Spool, tmp_path: Path
) -> None:
    linked = await linked_to(source, tmp_path)
    following = asyncio.ensure_future(linked.receive_written(source.log.written(), idle_s=10))
    await source.receive(stream(*CHUNKS))
    followed = aiter(linked.log.follow())
    assert [await anext(followed) for _ in CHUNKS] == list(CHUNKS)
    assert not following.done()
    await source.finish()
    await following
    await linked.finish()
    assert linked.digest == source.digest
    source.discard("replaced")
    assert [chunk async for chunk in linked.log.follow()] == list(CHUNKS)
    assert [chunk async for chunk in followed] == []


async def test_a_file_whose_header_is_not_written_is_not_complete(source: Spool, tmp_path: Path) -> None:
    linked = await linked_to(source, tmp_path)
    await source.receive(stream(*CHUNKS))
    await linked.receive_written(parts(*map(written, CHUNKS), ReleaseEnd(pieces=3, digest="tensors:0")), idle_s=10)
    with pytest.raises(WeightsUnreadableError, match="not complete"):
        await linked.finish()


async def test_a_file_that_is_shorter_than_its_header_states_is_not_complete(source: Spool, tmp_path: Path) -> None:
    linked = await linked_to(source, tmp_path)
    await source.receive(stream(*CHUNKS))
    await source.finish()
    await linked.receive_written(source.log.written(), idle_s=10)
    with (linked.directory / "model.safetensors").open("r+b") as file:
        file.truncate(file.seek(0, 2) - 1)
    with pytest.raises(WeightsUnreadableError, match="not complete"):
        await linked.finish()


async def test_followers_learn_that_the_source_gave_up_and_the_link_is_deleted(source: Spool, tmp_path: Path) -> None:
    linked = await linked_to(source, tmp_path)
    await source.receive(stream(A))
    source.discard("the trainer left")
    with pytest.raises(UnavailableError, match="the trainer left"):
        await linked.receive_written(source.log.written(), idle_s=10)
    linked.discard("its source gave up")
    with pytest.raises(UnavailableError, match="its source gave up"):
        _ = [chunk async for chunk in linked.log.follow(1)]
    assert not spools_in(tmp_path / "linked")


@pytest.mark.parametrize("pieces", [(), (A,), (A, B, MORE)])
async def test_a_stream_without_its_end_is_incomplete(
    source: Spool, tmp_path: Path, pieces: tuple[TensorChunk, ...]
) -> None:
    linked = await linked_to(source, tmp_path)
    with pytest.raises(UnavailableError, match=f"after {len(pieces)} of unknown"):
        await linked.receive_written(parts(*map(written, pieces)), idle_s=10)
    with pytest.raises(UnavailableError, match=f"after {len(pieces)} of 9"):
        await linked.receive_written(parts(ReleaseEnd(pieces=9, digest="")), idle_s=10)


@pytest.mark.parametrize(
    ("piece", "message"),
    [
        (replace(written(A), offset_bytes=4), "continues at byte 4"),
        (replace(written(A), size_bytes=12), "has more than the 8 bytes"),
        (replace(written(A), size_bytes=-1), "has more than the 8 bytes"),
        (replace(written(A), shape=(100,)), "brings the weights to 400 bytes; the maximum is 100"),
        (replace(written(A), dtype="I32"), "dtype"),
        (replace(written(A), name=""), "valid tensor name"),
    ],
)
async def test_pieces_that_do_not_fit_are_refused(
    source: Spool, tmp_path: Path, piece: WrittenPiece, message: str
) -> None:
    linked = await linked_to(source, tmp_path)
    with pytest.raises(WeightsError, match=message):
        await linked.receive_written(parts(piece), idle_s=10)


async def test_a_source_that_writes_nothing_any_more_is_given_up(source: Spool, tmp_path: Path) -> None:
    linked = await linked_to(source, tmp_path)
    with pytest.raises(TimeoutError):
        await linked.receive_written(source.log.written(), idle_s=0.01)


async def test_a_caller_that_hangs_up_while_the_file_is_linked_leaves_nothing(source: Spool, tmp_path: Path) -> None:
    beginning = asyncio.create_task(linked_to(source, tmp_path))
    while not (tmp_path / "linked").exists():  # noqa: ASYNC110 - created by a thread
        await asyncio.sleep(0)
    beginning.cancel()
    await asyncio.wait({beginning})
    await disks_idle()
    assert beginning.cancelled()
    assert not spools_in(tmp_path / "linked")
