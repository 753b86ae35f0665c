import asyncio
import errno
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import looptime
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tlt_common.domain.fleet import DrafterRecord, DrafterWish
from tlt_common.domain.ids import DrafterVersion, Epoch, WorkerId
from tlt_common.errors import ConfigError, InvalidRequestError, UnavailableError
from tlt_common.whole_file import write_whole
from tlt_coordinator.state import CLOCKS_S, EPOCH_BLOCK, RETRY_S, STATE_FILE, Epochs, State, StateStore, locked

WISH = DrafterWish(version=DrafterVersion(1), uri="file:///drafters/1")
RECORD = DrafterRecord(version=DrafterVersion(1), worker_id=WorkerId("w0"), at_unix_s=1.5, held_out_top1=0.25)


def names(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


async def test_what_was_written_is_found_again(tmp_path: Path) -> None:
    written = await StateStore.open(tmp_path, now_s=0.0).update(
        lambda _: State(drafter=WISH, drafters=(RECORD,), reserved_epoch=Epoch(7))
    )
    assert StateStore.open(tmp_path, now_s=0.0).state == written
    assert names(tmp_path) == [STATE_FILE]


def test_a_new_directory_is_made_and_empty(tmp_path: Path) -> None:
    with locked(tmp_path / "a" / "b"):
        assert StateStore.open(tmp_path / "a" / "b", now_s=0.0).state == State()


def test_a_file_that_is_not_ours_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / STATE_FILE).write_text("{")
    with pytest.raises(ConfigError, match=STATE_FILE) as refused:
        StateStore.open(tmp_path, now_s=0.0)
    assert refused.value.field == "state_dir"


def test_a_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="state_dir"):
        StateStore.open(tmp_path / "file", now_s=0.0)
    with pytest.raises(ConfigError, match="cannot be used"), locked(tmp_path / "file"):
        pass


async def test_a_change_that_cannot_be_written_does_not_count(tmp_path: Path) -> None:
    store = StateStore.open(tmp_path / "gone", now_s=0.0)
    with pytest.raises(UnavailableError, match="could not be written"):
        await store.update(lambda state: replace(state, drafter=WISH))
    assert store.state == State()


class Flaky:
    """Keeps nothing while it is broken."""

    def __init__(self) -> None:
        self.broken = False
        self.kept: list[State] = []

    async def write(self, state: State) -> None:
        if self.broken:
            raise UnavailableError("broken")
        self.kept.append(state)


@asynccontextmanager
async def reserving(store: StateStore) -> AsyncIterator[Epochs]:
    epochs = Epochs(store)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(epochs.run())
        await asyncio.sleep(0.1)
        yield epochs
        running.cancel()


@given(st.lists(st.lists(st.integers(1, 3000), max_size=5), max_size=6))
def test_epochs_only_go_up_over_any_number_of_restarts(runs: list[list[int]]) -> None:
    async def scenario() -> None:
        state, granted = State(), 0
        for counts in runs:
            async with reserving(store := StateStore(state, None)) as epochs:
                assert epochs.last >= granted
                for count in counts:
                    granted = min(epochs.last + count, epochs.reserved)
                    epochs.seen(Epoch(granted))
                    await asyncio.sleep(0.1)
            state = store.state

    with asyncio.Runner(loop_factory=looptime.new_event_loop) as runner:
        runner.run(scenario())


@pytest.mark.looptime
async def test_few_grants_are_kept() -> None:
    keeps = Flaky()
    async with reserving(StateStore(State(), keeps)) as epochs:
        for _ in range(2 * EPOCH_BLOCK):
            epochs.seen(Epoch(epochs.last + 1))
            await asyncio.sleep(0)
        await asyncio.sleep(0.1)
        assert epochs.reserved - epochs.last > EPOCH_BLOCK // 2
    assert len(keeps.kept) <= 5


@pytest.mark.looptime
async def test_epochs_are_granted_from_the_reserve_while_nothing_can_be_kept_and_reserved_again_later() -> None:
    keeps = Flaky()
    async with reserving(StateStore(State(), keeps)) as epochs:
        keeps.broken = True
        epochs.seen(Epoch(EPOCH_BLOCK))
        await asyncio.sleep(60.0)
        assert epochs.reserved == EPOCH_BLOCK
        keeps.broken = False
        await asyncio.sleep(2 * RETRY_S)
        assert epochs.reserved == 2 * EPOCH_BLOCK


@pytest.mark.looptime
async def test_an_epoch_a_worker_remembers_is_not_given_out_again() -> None:
    async with reserving(StateStore(State(), None)) as epochs:
        epochs.seen(Epoch(5000))
        await asyncio.sleep(0.1)
        assert epochs.last == 5000
        assert epochs.reserved > 5000


def test_an_epoch_that_nobody_can_have_granted_is_refused() -> None:
    now_s = 1_700_000_000.0
    epochs = Epochs(StateStore.open(None, now_s=now_s))
    for granted in (0, 7, int(now_s * 1_000_000), int((now_s + CLOCKS_S) * 1_000_000)):
        epochs.require_plausible(Epoch(granted), now_s)
    for invented in (2**62, 2**63 - 1, int((now_s + CLOCKS_S) * 1_000_000) + 1):
        with pytest.raises(InvalidRequestError, match="which no coordinator has granted") as refused:
            epochs.require_plausible(Epoch(invented), now_s)
        assert refused.value.field == "status.epoch"


def test_without_a_directory_a_later_start_begins_with_higher_epochs() -> None:
    assert (
        StateStore.open(None, now_s=1000.0).state.reserved_epoch
        < StateStore.open(None, now_s=1001.0).state.reserved_epoch
    )


async def test_a_volume_that_hangs_holds_publications_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs, written = threading.Event(), list[bytes]()

    def slow(path: Path, content: bytes, *, durable: bool) -> None:
        hangs.wait()
        written.append(content)
        write_whole(path, content, durable=durable)

    monkeypatch.setattr("tlt_coordinator.state.write_whole", slow)
    store = StateStore.open(tmp_path, now_s=0.0)
    impatient = asyncio.ensure_future(store.update(lambda state: replace(state, reserved_epoch=Epoch(7))))
    await asyncio.sleep(0)  # which would not return if the loop wrote
    impatient.cancel()
    patient = asyncio.ensure_future(store.update(lambda state: replace(state, reserved_epoch=Epoch(8))))
    with pytest.raises(asyncio.CancelledError):
        await impatient
    assert not patient.done()
    hangs.set()
    assert (await patient).reserved_epoch == 8
    assert StateStore.open(tmp_path, now_s=0.0).state.reserved_epoch == 8
    assert [b": 7" in content for content in written][-1] is False


def test_a_directory_has_one_coordinator_at_a_time(tmp_path: Path) -> None:
    state = tmp_path / "state"
    in_use = pytest.raises(ConfigError, match="is in use by another coordinator")
    with locked(state), in_use as refused, locked(state):
        pass
    assert refused.value.field == "state_dir"
    with locked(state), locked(None):
        pass


def test_a_file_system_without_locks_stops_no_coordinator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("tlt_coordinator.state.fcntl.flock", refuse)
    with locked(tmp_path), locked(tmp_path):
        pass
