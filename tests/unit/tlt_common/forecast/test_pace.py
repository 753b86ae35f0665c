"""Cost curves, learned from sums over rounds."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tlt_common.domain.arm import ArmWindow
from tlt_common.domain.arm.rounds import WorkedRounds
from tlt_common.forecast import CostCurve

BASE_S, REQUEST_S, KV_S, PREFILL_S = 0.007, 0.0001, 2e-8, 3e-5


def window(requests: int, kv_tokens: int, *, arm: str = "off", accepted: int = 0, rounds: int = 100) -> ArmWindow:
    return ArmWindow(
        arm=arm,
        group=1 << (requests.bit_length() - 1),
        rounds=rounds,
        accepted_tokens=accepted * requests * rounds,
        produced_tokens=(1 + accepted) * requests * rounds,
        elapsed_s=rounds * (BASE_S + REQUEST_S * requests + KV_S * kv_tokens) * (1 + accepted) ** 0.5,
        median_reward=1.0,
        kv_tokens=kv_tokens * rounds,
    )


def learned(*windows: ArmWindow) -> CostCurve:
    curve = CostCurve()
    curve.learn(WorkedRounds(serial=1, arms=windows, prefilled_tokens=10_000, prefill_s=10_000 * PREFILL_S))
    return curve


TAIL = [window(requests, kv) for requests, kv in ((64, 400_000), (16, 200_000), (8, 120_000), (4, 70_000), (2, 50_000))]


def test_nothing_is_known_before_rounds_and_prefills_were_seen() -> None:
    assert CostCurve().pace(4) is None
    unprefilled = CostCurve()
    unprefilled.learn(WorkedRounds(serial=1, arms=tuple(TAIL)))
    assert unprefilled.pace(4) is None
    assert learned(window(2, 1000, rounds=3)).pace(4) is None
    assert learned(*TAIL).pace(4) is not None


@pytest.mark.parametrize(("requests", "kv_tokens"), [(1, 20_000), (3, 60_000), (4, 90_000), (6, 100_000)])
def test_a_round_between_those_seen_takes_as_long_as_it_does(requests: int, kv_tokens: int) -> None:
    found = learned(*TAIL).token_s(requests, kv_tokens)
    assert found == pytest.approx(BASE_S + REQUEST_S * requests + KV_S * kv_tokens, rel=0.05)


def test_drafts_that_are_kept_make_tokens_cheaper() -> None:
    plain, drafting = (
        learned(*TAIL).pace(4),
        learned(
            *(
                window(requests, kv, arm="chain-7", accepted=3)
                for requests, kv in ((8, 120_000), (4, 70_000), (2, 50_000))
            )
        ).pace(4),
    )
    assert plain is not None
    assert drafting is not None
    assert drafting.token_s(2, 50_000) == pytest.approx(plain.token_s(2, 50_000) / 2.0, rel=0.1)
    assert plain.prefill_s(22_000) == pytest.approx(22_000 * PREFILL_S)


def test_another_drafter_makes_only_drafting_rounds_forgotten() -> None:
    curve = learned(*TAIL, window(2, 50_000, arm="chain-7", accepted=3, rounds=1000))
    plain_s, drafting_s = learned(*TAIL).token_s(2, 50_000), curve.token_s(2, 50_000)
    assert plain_s is not None
    assert drafting_s is not None
    assert drafting_s < 0.6 * plain_s
    curve.forget_drafts()
    assert curve.token_s(2, 50_000) == pytest.approx(plain_s)


cells = st.lists(
    st.builds(
        window,
        st.integers(1, 300),
        st.integers(0, 10**7),
        arm=st.sampled_from(("off", "chain-3")),
        accepted=st.integers(0, 7),
        rounds=st.integers(1, 5000),
    ),
    min_size=1,
    max_size=12,
)


@given(cells, st.integers(1, 8), st.integers(0, 10**6))
def test_a_pace_is_positive_and_more_in_the_cache_takes_no_less(
    windows: list[ArmWindow], most: int, kv_tokens: int
) -> None:
    pace = learned(*windows).pace(most)
    if pace is None:
        return
    assert len(pace.tokens_s) == most
    for requests in range(1, 2 * most):
        times = [pace.token_s(requests, kv) for kv in (0, kv_tokens, 2 * kv_tokens)]
        assert all(before <= after for before, after in pairwise(times))
        assert times[0] >= 0.0
