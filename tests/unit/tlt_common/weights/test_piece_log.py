"""Followers of a release that will not be complete, or is given up."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tlt_common.domain.weights import TensorChunk
from tlt_common.errors import UnavailableError
from tlt_common.weights.piece_log import PieceLog
from tlt_common.weights.spool import Spool

CHUNK = TensorChunk(name="w", dtype="F32", shape=(2,), offset_bytes=0, data=b"12345678")


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[PieceLog]:
    spool = Spool(tmp_path)
    spool.log.append(spool.write(CHUNK))
    yield spool.log
    spool.remove()


@pytest.mark.parametrize("is_complete", [False, True])
async def test_once_a_release_is_given_up_none_of_its_pieces_are_offered(log: PieceLog, is_complete: bool) -> None:
    assert await anext(aiter(log.follow())) == CHUNK
    if is_complete:
        log.finish()
    log.fail("it was discarded")
    with pytest.raises(UnavailableError, match="discarded"):
        await anext(aiter(log.follow()))


async def test_who_waits_for_the_next_piece_is_told(log: PieceLog) -> None:
    followed = aiter(log.follow(1))
    waiting = asyncio.ensure_future(anext(followed))
    await asyncio.sleep(0)
    log.fail("the trainer's stream ended")
    with pytest.raises(UnavailableError, match="stream ended"):
        await waiting
