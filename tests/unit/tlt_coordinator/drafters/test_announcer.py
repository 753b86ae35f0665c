from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tlt_common.domain.fleet import DrafterWish
from tlt_common.domain.ids import DrafterVersion
from tlt_coordinator.drafters.announcer import Announcer


def wish(version: int) -> DrafterWish:
    return DrafterWish(version=DrafterVersion(version), uri=f"/d/{version}")


def test_a_drafter_that_comes_too_soon_waits_and_a_newer_one_replaces_it() -> None:
    announcer = Announcer()
    announcer.publish(wish(1))
    assert announcer.due(0.0, every_s=5.0, training=True) == wish(1)
    announcer.publish(wish(2))
    assert announcer.due(3.0, every_s=5.0, training=True) is None
    announcer.publish(wish(3))
    assert announcer.due(5.0, every_s=5.0, training=True) == wish(3)
    assert announcer.due(99.0, every_s=5.0, training=True) is None


def test_once_nothing_trains_a_drafter_does_not_wait() -> None:
    announcer = Announcer()
    announcer.publish(wish(1))
    announcer.due(0.0, every_s=5.0, training=True)
    announcer.publish(wish(2))
    assert announcer.due(0.1, every_s=5.0, training=False) == wish(2)


@given(st.lists(st.integers(0, 10), min_size=1, max_size=50), st.integers(0, 20))
def test_engines_are_told_at_the_pace_and_of_the_newest_in_the_end(gaps_s: list[int], every_s: int) -> None:
    announcer, now_s, told = Announcer(), 0.0, list[tuple[float, DrafterWish]]()
    for version, gap_s in enumerate(gaps_s, 1):
        announcer.publish(wish(version))
        if (due := announcer.due(now_s, every_s=every_s, training=True)) is not None:
            told.append((now_s, due))
        now_s += gap_s
    if (due := announcer.due(now_s + every_s, every_s=every_s, training=True)) is not None:
        told.append((now_s + every_s, due))
    assert told[-1][1] == wish(len(gaps_s))
    assert all(after - before >= every_s for (before, _), (after, _) in pairwise(told))
