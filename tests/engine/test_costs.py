"""Engines report what cost curves are learned from."""

import pytest

from tests.engine.host import Play
from tests.engine.scenes import costs
from tests.engine.scenes.costs import NEW_TOKENS, POOL_TOKENS, PROMPT_TOKENS, CostResult
from tlt_common.domain.tuner import RoundReport

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def result(play: Play) -> CostResult:
    return play(costs.costs)


def kv_per_round(reports: list[RoundReport], group: int) -> float:
    windows = [window for report in reports for window in report.arms if window.group == group]
    return sum(window.kv_tokens for window in windows) / sum(window.rounds for window in windows)


def test_the_size_of_the_cache_is_known(result: CostResult) -> None:
    assert 0 < result.kv_tokens <= POOL_TOKENS


def test_tokens_in_the_cache_are_counted_with_each_round(result: CostResult) -> None:
    middle = PROMPT_TOKENS + NEW_TOKENS / 2
    assert kv_per_round(result.alone, 1) == pytest.approx(middle, rel=0.15)
    assert kv_per_round(result.four, 4) == pytest.approx(4 * middle, rel=0.2)


def test_prompts_are_counted_with_their_seconds(result: CostResult) -> None:
    for reports, count in ((result.alone, 1), (result.four, 4)):
        tokens = sum(report.prefilled_tokens for report in reports)
        assert 0.2 * count * PROMPT_TOKENS < tokens <= count * PROMPT_TOKENS + 2
        assert sum(report.prefill_s for report in reports) > 0.0
