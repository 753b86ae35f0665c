"""Which run is chosen by which options."""

from dataclasses import replace

import pytest

from countdown.settings import DRAFTER, LAYERS, NO_TAIL, QUICK, SERVED_LAYERS, SHALLOW, WARM, DemoSettings, chosen
from tlt_common.errors import ConfigError


def test_a_run_is_cold_unless_it_is_quick_or_warm() -> None:
    assert chosen() == DemoSettings()
    assert chosen().drafter == ""
    assert chosen(quick=True) is QUICK
    assert chosen(warm=True) is WARM
    assert WARM.drafter == QUICK.drafter == str(DRAFTER)
    assert (WARM.minutes, WARM.cap_tokens) == (DemoSettings().minutes, DemoSettings().cap_tokens)


def test_without_a_tail_all_responses_are_as_long_as_the_cap() -> None:
    assert chosen(no_tail=True) is NO_TAIL
    assert NO_TAIL.uniform_tokens == NO_TAIL.cap_tokens
    assert NO_TAIL.drafter == ""


def test_a_shallow_run_differs_in_what_is_served_alone() -> None:
    assert chosen(shallow=True) is SHALLOW
    assert replace(SHALLOW, served_layers=SERVED_LAYERS) == DemoSettings()
    assert SHALLOW.served_layers == LAYERS


@pytest.mark.parametrize("wanted", [("quick", "warm"), ("warm", "no_tail"), ("quick", "shallow", "no_tail")])
def test_kinds_of_runs_are_not_combined(wanted: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match="use one of them"):
        chosen(**dict.fromkeys(wanted, True))
