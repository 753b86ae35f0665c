"""Requests are packed as far as that hardly slows them down."""

from hypothesis import given
from hypothesis import strategies as st

from tlt_gateway.consolidation.knee import knee


def flat(requests: int, kv_tokens: float) -> float:
    """A device that reads its weights, whatever it computes, up to 16 requests; then it computes."""
    return 0.005 + 1e-9 * kv_tokens + 0.001 * max(0, requests - 16)


def steep(requests: int, kv_tokens: float) -> float:
    """A processor, on which every request costs as much as the first."""
    del kv_tokens
    return 0.01 * requests


def test_requests_are_packed_up_to_where_computing_begins() -> None:
    assert 12 <= knee(flat, running=32, workers=8, kv_tokens=32.0, kv_room=10_000, slack=0.02) <= 16


def test_what_slows_down_at_once_is_spread() -> None:
    assert knee(steep, running=32, workers=8, kv_tokens=32.0, kv_room=10_000, slack=0.02) == 0


def test_nothing_is_packed_that_is_not_known_or_not_wanted() -> None:
    assert knee(lambda *_: None, running=32, workers=8, kv_tokens=32.0, kv_room=10_000, slack=0.02) == 0
    assert knee(flat, running=32, workers=8, kv_tokens=32.0, kv_room=10_000, slack=0.0) == 0
    assert knee(flat, running=0, workers=8, kv_tokens=0.0, kv_room=10_000, slack=0.02) == 0


def test_packed_requests_leave_room_to_grow() -> None:
    assert knee(flat, running=32, workers=8, kv_tokens=32_000.0, kv_room=12_000, slack=0.5) <= 6


@given(
    st.integers(1, 500),
    st.integers(1, 64),
    st.floats(1.0, 10_000.0),
    st.floats(0.001, 0.5),
    st.floats(0.0, 0.01),
    st.floats(0.0, 1e-6),
)
def test_a_token_takes_no_longer_than_the_slack_says(
    running: int, workers: int, kv_each: float, slack: float, per_request_s: float, per_kv_s: float
) -> None:
    def token_s(requests: int, kv_tokens: float) -> float:
        return 0.005 + per_request_s * requests + per_kv_s * kv_tokens

    found = knee(token_s, running=running, workers=workers, kv_tokens=running * kv_each, kv_room=10**9, slack=slack)
    spread = -(-running // workers)
    assert found == 0 or spread < found <= running
    if found:
        assert token_s(found, found * kv_each) <= (1 + slack) * token_s(spread, spread * kv_each) * (1 + 1e-9)
