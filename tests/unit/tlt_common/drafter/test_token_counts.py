import numpy as np
import pytest

from tlt_common.drafter.token_counts import TokenCounts


def test_draft_tokens_are_the_most_frequent_ones() -> None:
    counts = TokenCounts(8)
    assert counts.coverage(np.array([1])) == 1.0
    counts.add(np.array([7, 7, 7, 2, 2, 5]))
    assert counts.frequent(4).tolist() == [0, 2, 5, 7]
    assert counts.coverage(np.array([-1, 2, 7])) == pytest.approx(5 / 6)
    assert counts.better_than(np.array([2, 7])) is None
    assert counts.better_than(np.array([-1, -1])) is not None
    counts.add(np.full(6, 4))
    better = counts.better_than(np.array([2, 7]))
    assert better is not None
    assert better.tolist() == [4, 7]


def test_rare_tokens_do_not_displace_those_whose_rows_have_learned() -> None:
    counts = TokenCounts(8)
    counts.add(np.array([3, 3, 6]))
    assert counts.frequent(4, np.array([3, 4, 5, 7])).tolist() == [3, 4, 5, 6]


def test_older_tokens_count_less_and_less() -> None:
    counts = TokenCounts(4, recent_tokens=100)
    counts.add(np.zeros(99))
    for _ in range(3):
        counts.add(np.ones(60))
    assert counts.total < 100
    assert counts.coverage(np.array([1])) > 0.75
    copy, total = counts.copy(), counts.total
    counts.add(np.full(5, 2))
    assert (copy.total, counts.total) == (total, total + 5)
