"""Sampled speculation gives the target's distribution; SGLang's own verification on a CPU does not."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from scipy.stats import chi2

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]

Play = Callable[[str], dict[str, Any]]

LEVEL = 1e-4
"""A correct engine fails once in ten thousand runs; a wrong one gives 1e-100 and less."""


@pytest.fixture(scope="module")
def drawn(play: Play) -> dict[str, Any]:
    return play("lossless")


def chi_square(tokens: list[tuple[int, ...]], exact: list[float]) -> float:
    """P value of the drawn answers under the exact distribution; rare answers are counted together."""
    size = round(len(exact) ** (1 / len(tokens[0])))
    counts: Counter[int] = Counter()
    for answer in tokens:
        cell = 0
        for token in answer:
            cell = cell * size + token
        counts[cell] += 1
    common = [cell for cell, mass in enumerate(exact) if mass * len(tokens) >= 5]
    assert all(exact[cell] > 0 for cell in counts), "an answer of probability zero was drawn"
    rare = len(tokens) - sum(counts[cell] for cell in common)
    rare_expected = len(tokens) * (1 - sum(exact[cell] for cell in common))
    statistic = sum((counts[cell] - exact[cell] * len(tokens)) ** 2 / (exact[cell] * len(tokens)) for cell in common)
    if rare_expected > 1e-6:
        statistic += (rare - rare_expected) ** 2 / rare_expected
    return float(chi2.sf(statistic, len(common) - (rare_expected <= 1e-6)))


@pytest.mark.parametrize("setting", ["plain", "filtered"])
def test_sampled_acceptance_follows_the_target_distribution(drawn: dict[str, Any], setting: str) -> None:
    case = drawn[setting]
    assert case["accepted"] > 0.5, "without accepted drafts nothing is shown"
    assert chi_square(case["tokens"], case["exact"]) > LEVEL


def test_the_same_test_fails_with_sglangs_own_verification(play: Play) -> None:
    case = play("unpatched")["plain"]
    assert chi_square(case["tokens"], case["exact"]) < 1e-12
