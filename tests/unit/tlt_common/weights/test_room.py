"""Weights have to fit the volume they are written to."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.full_disk import full_disk
from tests.fakes.spools import spools_in
from tlt_common.domain.weights import TensorChunk
from tlt_common.errors import WeightsError, WeightsUnreadableError
from tlt_common.weights.received_spool import ReceivedSpool
from tlt_common.weights.room import SpoolRoom


def test_the_smallest_bound_counts(tmp_path: Path) -> None:
    assert SpoolRoom(directory=tmp_path, max_bytes=100).limit() == (100, "on any volume")
    assert SpoolRoom(directory=tmp_path, max_bytes=100, volume_bytes=90).limit()[0] == 45
    limit, why = SpoolRoom(directory=tmp_path / "to come" / "spool", max_bytes=2**70).limit()
    assert 0 < limit < 2**60
    assert "free" in why


def test_what_has_no_room_is_refused_with_both_figures(tmp_path: Path) -> None:
    room = SpoolRoom(directory=tmp_path, max_bytes=1000, volume_bytes=900)
    room.require(450)
    with pytest.raises(WeightsError, match=r"451 bytes; the maximum is 450, half of the volume .*spool_bytes"):
        room.require(451)


async def pieces() -> AsyncIterator[TensorChunk]:
    for place in range(4):
        yield TensorChunk(name="a", dtype="F32", shape=(2**20,), offset_bytes=place * 2**20, data=bytes(2**20))


async def test_a_disk_that_fills_up_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    incoming = await ReceivedSpool.begin(tmp_path, max_bytes=2**40)
    with (
        full_disk(6 * 2**20),
        pytest.raises(WeightsUnreadableError, match="File too large"),
    ):
        await incoming.receive(pieces())
    incoming.discard("the disk is full")
    assert not spools_in(tmp_path)
