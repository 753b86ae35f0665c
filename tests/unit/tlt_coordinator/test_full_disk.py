"""A full disk refuses a change of the coordinator's state; what was stored stays, and the next change succeeds."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes.full_disk import full_disk
from tlt_common.domain.ids import Epoch
from tlt_common.errors import UnavailableError
from tlt_coordinator.state import State, StateStore


def reserving(epoch: int) -> State:
    return replace(State(), reserved_epoch=Epoch(epoch))


async def test_the_state_before_stays_and_the_next_one_is_stored(tmp_path: Path) -> None:
    store = StateStore.open(tmp_path, now_s=0.0)
    await store.update(lambda _: reserving(7))
    for room_bytes in (0, 10):
        with full_disk(room_bytes), pytest.raises(UnavailableError, match="could not be written"):
            await store.update(lambda _: reserving(8))
        assert store.state == reserving(7)
        assert StateStore.open(tmp_path, now_s=0.0).state == reserving(7)
    await store.update(lambda _: reserving(9))
    assert StateStore.open(tmp_path, now_s=0.0).state == reserving(9)
