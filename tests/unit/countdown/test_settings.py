"""Which run is chosen by which options."""

import pytest

from countdown.settings import DRAFTER, QUICK, WARM, DemoSettings, chosen
from tlt_common.errors import ConfigError


def test_a_run_is_cold_unless_it_is_quick_or_warm() -> None:
    assert chosen() == DemoSettings()
    assert chosen().drafter == ""
    assert chosen(quick=True) is QUICK
    assert chosen(warm=True) is WARM
    assert WARM.drafter == QUICK.drafter == str(DRAFTER)
    assert (WARM.minutes, WARM.cap_tokens) == (DemoSettings().minutes, DemoSettings().cap_tokens)


def test_quick_and_warm_are_not_combined() -> None:
    with pytest.raises(ConfigError, match="accepted: one of them"):
        chosen(quick=True, warm=True)
