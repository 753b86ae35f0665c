from hypothesis import given
from hypothesis import strategies as st

from tlt_gateway.workers.silence import lost_by_silence

FLEETS = st.dictionaries(st.integers(0, 9), st.floats(0, 100))


@given(FLEETS, st.floats(1, 50))
def test_only_silent_workers_are_lost_and_never_all(silent_s: dict[int, float], limit_s: float) -> None:
    lost = lost_by_silence(silent_s, limit_s)
    assert all(silent_s[worker] >= limit_s for worker in lost)
    assert not silent_s or len(lost) < len(silent_s)


@given(FLEETS, st.floats(1, 50))
def test_while_one_worker_is_heard_all_silent_ones_are_lost(silent_s: dict[int, float], limit_s: float) -> None:
    silent_s[99] = 0.0
    assert set(lost_by_silence(silent_s, limit_s)) == {w for w, seconds in silent_s.items() if seconds >= limit_s}


@given(FLEETS)
def test_without_a_limit_nobody_is_lost(silent_s: dict[int, float]) -> None:
    assert lost_by_silence(silent_s, None) == []
