"""An engine's memory on a CPU is released in fact, and what it served is restored."""

import pytest

from tests.engine.host import Play
from tests.engine.scenes.release import ReleaseResult, release

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def result(play: Play) -> ReleaseResult:
    return play(release)


def test_released_memory_is_what_was_planned(result: ReleaseResult) -> None:
    assert result.released_bytes / result.planned_bytes == pytest.approx(1.0, abs=0.05)
    assert result.left_files == 0


def test_policy_and_drafter_are_those_of_before(result: ReleaseResult) -> None:
    assert result.before.stats is not None
    assert result.before.stats.accepted_draft_tokens > 0
    assert result.after == result.before


def test_weights_may_be_updated_before_the_kv_cache_is_back(result: ReleaseResult) -> None:
    assert result.updated.token_ids != result.before.token_ids
    assert result.updated.token_ids == result.twin.token_ids
    assert result.updated.logprobs == result.twin.logprobs
    assert result.updated.rounds == result.twin.rounds, "the drafter is another"


def test_parts_may_be_released_alone(result: ReleaseResult) -> None:
    assert result.again == result.updated
