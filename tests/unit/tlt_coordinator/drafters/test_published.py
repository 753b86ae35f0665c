from dataclasses import replace
from pathlib import Path

import pytest

from tlt_common.domain.fleet import Publication
from tlt_common.domain.ids import DrafterVersion, WorkerId
from tlt_common.errors import InvalidRequestError, StaleVersionError
from tlt_coordinator.drafters.published import RECORDS, PublishedDrafters
from tlt_coordinator.state import State, StateStore

NONE = DrafterVersion(0)


def publication(base: int, uri: str = "", worker: str = "w0") -> Publication:
    return Publication(
        base=DrafterVersion(base),
        uri=uri or f"file:///after-{base}-by-{worker}",
        worker_id=WorkerId(worker),
        held_out_top1=0.5,
    )


@pytest.fixture
def drafters() -> PublishedDrafters:
    return PublishedDrafters(StateStore(State(), None), max_drop=0.05)


async def test_versions_count_from_one(drafters: PublishedDrafters) -> None:
    assert drafters.newest is None
    assert [(await drafters.publish(publication(base), now_s=0.0, loaded=NONE)).version for base in range(3)] == [
        1,
        2,
        3,
    ]


async def test_two_trainers_from_one_base_make_one_version_and_one_merge(drafters: PublishedDrafters) -> None:
    await drafters.publish(publication(0), now_s=0.0, loaded=NONE)
    await drafters.publish(publication(1, worker="w0"), now_s=0.0, loaded=NONE)
    with pytest.raises(StaleVersionError, match="2 was published") as stale:
        await drafters.publish(publication(1, worker="w1"), now_s=0.0, loaded=NONE)
    assert stale.value.field == "base_version"
    assert (await drafters.publish(publication(2, worker="w1"), now_s=0.0, loaded=NONE)).version == 3


async def test_repeating_a_publication_whose_answer_was_lost_changes_nothing(drafters: PublishedDrafters) -> None:
    first = await drafters.publish(publication(0), now_s=0.0, loaded=NONE)
    assert await drafters.publish(publication(0), now_s=9.0, loaded=NONE) == first
    assert len(drafters.records) == 1


async def test_records_say_who_trained_when_and_how_well(drafters: PublishedDrafters) -> None:
    await drafters.publish(publication(0, worker="w7"), now_s=12.5, loaded=NONE)
    (record,) = drafters.records
    assert (record.version, record.worker_id, record.at_unix_s, record.held_out_top1) == (1, "w7", 12.5, 0.5)


async def test_records_are_bounded(drafters: PublishedDrafters) -> None:
    for base in range(RECORDS + 10):
        await drafters.publish(publication(base), now_s=0.0, loaded=NONE)
    assert len(drafters.records) == RECORDS
    assert drafters.records[-1].version == RECORDS + 10


async def test_a_base_that_was_forgotten_is_built_upon(drafters: PublishedDrafters) -> None:
    assert (await drafters.publish(publication(41), now_s=0.0, loaded=NONE)).version == 42


async def test_a_new_drafter_is_above_what_workers_have_loaded(drafters: PublishedDrafters) -> None:
    assert (await drafters.publish(publication(0), now_s=0.0, loaded=DrafterVersion(5))).version == 6


async def test_versions_go_on_after_a_restart(tmp_path: Path) -> None:
    newest = await PublishedDrafters(StateStore.open(tmp_path, now_s=0.0), max_drop=0.05).publish(
        publication(0), now_s=0.0, loaded=NONE
    )
    restarted = PublishedDrafters(StateStore.open(tmp_path, now_s=0.0), max_drop=0.05)
    assert restarted.newest == newest
    with pytest.raises(StaleVersionError):
        await restarted.publish(publication(0, worker="w1"), now_s=0.0, loaded=NONE)


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        (replace(publication(0), uri=""), "uri"),
        (replace(publication(0), held_out_top1=1.5), "held_out_top1"),
        (replace(publication(0), held_out_top1=float("nan")), "held_out_top1"),
    ],
)
async def test_an_incomplete_publication_is_refused_by_field(
    drafters: PublishedDrafters, bad: Publication, field: str
) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        await drafters.publish(bad, now_s=0.0, loaded=NONE)
    assert refused.value.field == field
