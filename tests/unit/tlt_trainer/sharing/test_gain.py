import pytest
from hypothesis import given
from hypothesis import strategies as st

from tlt_trainer.sharing.gain import LEAST, Gain


def test_nothing_is_said_of_few_scores_or_of_one_moment() -> None:
    gain = Gain()
    for _ in range(LEAST + 1):
        assert gain.per_s is None
        gain.note(4.0, 2.0)
    assert gain.per_s is None


@given(st.floats(-0.5, 0.5), st.floats(0.5, 8.0))
def test_the_slope_of_a_line_is_found(slope: float, every_s: float) -> None:
    gain = Gain()
    for number in range(8):
        gain.note(number * every_s, 3.0 + slope * number * every_s)
    assert gain.per_s == pytest.approx(slope, abs=1e-9)


def test_other_weights_begin_another_line_and_what_was_known_stays_until_then() -> None:
    gain = Gain()
    for number in range(LEAST):
        gain.note(float(number), float(number))
    gain.begin()
    for number in range(LEAST - 1):
        gain.note(float(number), 9.0)
        assert gain.per_s == pytest.approx(1.0)
    gain.note(9.0, 9.0)
    assert gain.per_s == pytest.approx(0.0)
