"""The order of strikes: seeded, complete, never two at once in one group."""

from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from tlt_bench.campaign.kills.plan import Queue, strikes
from tlt_bench.campaign.kills.targets import TARGETS, Action

SEEDS = st.integers(0, 2**32)
GROUPS = sorted({target.group for target in TARGETS})


@given(SEEDS)
def test_a_seed_decides_the_plan_and_the_first_strike_is_measured(seed: int) -> None:
    first, second = (list(islice(strikes(seed), 50)) for _ in range(2))
    assert [str(strike) for strike in first] == [str(strike) for strike in second]
    assert first[0].is_measured


@given(SEEDS)
def test_the_short_form_strikes_every_cheap_target_in_every_way_and_engines_too(seed: int) -> None:
    planned = list(islice(strikes(seed), 40))
    struck = {(strike.target.name, strike.action) for strike in planned}
    cheap = {(target.name, action) for target in TARGETS if target.group != "worker" for action in target.actions}
    assert cheap <= struck
    assert sum(strike.target.group == "worker" for strike in planned) >= 4


@given(SEEDS, st.lists(st.sets(st.sampled_from(GROUPS)), max_size=60))
def test_no_strike_hits_a_group_that_is_disturbed_and_none_is_dropped(seed: int, disturbed: list[set[str]]) -> None:
    queue, taken = Queue(seed), []
    for groups in disturbed:
        strike = queue.take(groups)
        assert strike is None or strike.target.group not in groups
        taken += [strike] if strike else []
    # What was passed over comes as soon as it is possible.
    rest = [queue.take(set()) for _ in range(100)]
    expected = [str(strike) for strike in islice(strikes(seed), len(taken) + 100)]
    assert sorted(str(strike) for strike in [*taken, *rest]) == sorted(expected)


def test_connections_are_cut_and_frozen_and_processes_get_signals() -> None:
    for target in TARGETS:
        assert (Action.CUT in target.actions) == (target.count == 0)
        assert (Action.KILL in target.actions) == (target.count > 0)
