"""Finding the round with the switch among those of a request."""

from collections.abc import Sequence

import pytest

from tlt_bench.arms.switch import lost_rounds
from tlt_bench.engines.commands import Timing


def timing(rounds: Sequence[tuple[float, int]], *, ordered_after: int) -> Timing:
    """Rounds of given seconds and tokens, after the first token; the order comes a moment after one of them."""
    at_s, tokens, now_s = [1.0], [1], 1.0
    for seconds, count in rounds:
        now_s += seconds
        at_s.append(now_s)
        tokens.append(count)
    return Timing(
        seconds=now_s,
        window_began_s=0.0,
        window_s=now_s,
        window_cpu_s=now_s,
        window_tokens=sum(tokens),
        window_rounds=len(rounds),
        tokens=(sum(tokens),),
        rounds=(len(rounds),),
        at_s=tuple(at_s),
        chunk_tokens=tuple(tokens),
        switched_s=(at_s[ordered_after] + 0.001,),
    )


def test_on_costs_what_its_first_round_takes_more_than_the_others() -> None:
    rounds = [(0.1, 1)] * 5 + [(0.1, 1), (0.5, 6)] + [(0.2, 6)] * 10
    assert lost_rounds(timing(rounds, ordered_after=5), 0, on=True) == pytest.approx(1.5)


def test_on_may_begin_with_a_round_whose_drafts_were_all_refused() -> None:
    rounds = [(0.1, 1)] * 5 + [(0.5, 1), (0.2, 6)] + [(0.2, 6)] * 10
    assert lost_rounds(timing(rounds, ordered_after=5), 0, on=True) == pytest.approx(1.5)


def test_rounds_of_the_arm_before_are_not_counted_against_off() -> None:
    rounds = [(0.3, 6)] * 5 + [(0.3, 6), (0.12, 1)] + [(0.1, 1)] * 10
    assert lost_rounds(timing(rounds, ordered_after=5), 0, on=False) == pytest.approx(0.2)
