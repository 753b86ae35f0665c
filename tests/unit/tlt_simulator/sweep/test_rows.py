import pytest

from tests.unit.tlt_simulator.comparisons import outcome
from tlt_simulator.sweep.rows import Mark, is_shorter, rows_of


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        ((90.0, 91.0, 89.0), (100.0, 101.0, 99.0), True),
        ((100.0, 101.0, 99.0), (90.0, 91.0, 89.0), False),
        ((99.0, 103.0, 98.0), (100.0, 101.0, 99.5), False),
        ((99.9, 99.9, 99.9), (100.0, 100.0, 100.0), False),  # below what any model of costs is exact to
        ((99.0, 99.0, 99.0), (100.0, 100.0, 100.0), True),
        ((50.0,), (100.0,), False),
        ((100.0, 100.0), (100.0, 100.0), False),
    ],
)
def test_only_what_is_beyond_noise_is_shorter(one: tuple[float, ...], other: tuple[float, ...], *, said: bool) -> None:
    assert is_shorter(one, other) is said


def test_the_best_row_is_marked_only_if_it_is_beyond_noise() -> None:
    fast, slow = [outcome(one) for one in (90, 91, 89)], [outcome(one) for one in (100, 101, 99)]
    near = [outcome(one) for one in (90.5, 89, 91)]
    assert [row.mark for row in rows_of([({}, slow), ({"a": "1"}, fast)])] == [Mark.NONE, Mark.BEST]
    marks = [row.mark for row in rows_of([({}, slow), ({"a": "1"}, fast), ({"a": "2"}, near)])]
    assert marks == [Mark.NONE, Mark.AS_GOOD, Mark.AS_GOOD]
    assert [row.mark for row in rows_of([({}, fast)])] == [Mark.NONE]


def test_a_row_says_its_mean_and_spread() -> None:
    (row,) = rows_of([({}, [outcome(50), outcome(40)])])
    assert row.seconds == 45.0
    assert row.speedup == pytest.approx(100 / 45)
    assert row.speedup_spread == pytest.approx(0.3536, abs=1e-3)
