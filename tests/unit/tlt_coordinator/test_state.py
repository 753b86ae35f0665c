from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tlt_common.domain.fleet import DrafterRecord, DrafterWish
from tlt_common.domain.ids import DrafterVersion, Epoch, WorkerId
from tlt_common.errors import ConfigError, UnavailableError
from tlt_coordinator.state import EPOCH_BLOCK, STATE_FILE, Epochs, State, Store

WISH = DrafterWish(version=DrafterVersion(1), uri="file:///drafters/1")
RECORD = DrafterRecord(version=DrafterVersion(1), worker_id=WorkerId("w0"), at_unix_s=1.5, held_out_top1=0.25)


def test_what_was_written_is_found_again(tmp_path: Path) -> None:
    written = Store.open(tmp_path, now_s=0.0).update(
        lambda _: State(drafter=WISH, drafters=(RECORD,), reserved_epoch=Epoch(7))
    )
    assert Store.open(tmp_path, now_s=0.0).state == written
    assert [path.name for path in tmp_path.iterdir()] == [STATE_FILE]


def test_a_new_directory_is_made_and_empty(tmp_path: Path) -> None:
    assert Store.open(tmp_path / "a" / "b", now_s=0.0).state == State()


def test_a_file_that_is_not_ours_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / STATE_FILE).write_text("{")
    with pytest.raises(ConfigError, match=STATE_FILE) as refused:
        Store.open(tmp_path, now_s=0.0)
    assert refused.value.field == "state_dir"


def test_a_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="state_dir"):
        Store.open(tmp_path / "file", now_s=0.0)


def test_a_change_that_cannot_be_written_does_not_count(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "gone", now_s=0.0)
    (tmp_path / "gone").rmdir()
    with pytest.raises(UnavailableError, match="could not be written"):
        store.update(lambda state: replace(state, drafter=WISH))
    assert store.state == State()


@given(st.lists(st.lists(st.integers(1, 3000), max_size=5), max_size=6))
def test_epochs_only_go_up_over_any_number_of_restarts(
    tmp_path_factory: pytest.TempPathFactory, runs: list[list[int]]
) -> None:
    directory, granted = tmp_path_factory.mktemp("state"), 0
    for counts in runs:
        epochs = Epochs(Store.open(directory, now_s=0.0))
        assert epochs.last >= granted
        for count in counts:
            epochs.reserve(count)
            epochs.seen(Epoch(epochs.last + count))
            granted = epochs.last


def test_few_grants_are_written_down(tmp_path: Path) -> None:
    store = Store.open(tmp_path, now_s=0.0)
    epochs = Epochs(store)
    written = set()
    for _ in range(2 * EPOCH_BLOCK):
        epochs.reserve(1)
        epochs.seen(Epoch(epochs.last + 1))
        written.add(store.state.reserved_epoch)
    assert len(written) == 2


def test_an_epoch_a_worker_remembers_is_not_given_out_again() -> None:
    epochs = Epochs(Store(State(), None))
    epochs.seen(Epoch(5000))
    epochs.reserve(1)
    assert epochs.last == 5000


def test_without_a_directory_a_later_start_begins_with_higher_epochs() -> None:
    assert Store.open(None, now_s=1000.0).state.reserved_epoch < Store.open(None, now_s=1001.0).state.reserved_epoch
