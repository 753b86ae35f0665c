"""One engine that fails to load weights halfway, first with the served ones at hand, then without."""

import pytest

from tests.engine.host import Play
from tests.engine.scenes.rollback import RollbackResult, rollback

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def result(play: Play) -> RollbackResult:
    return play(rollback)


def test_a_load_that_fails_halfway_is_refused(result: RollbackResult) -> None:
    assert result.refusal.startswith("WeightsError")
    assert result.newer.token_ids != result.start.token_ids


def test_the_served_weights_are_served_exactly_afterwards(result: RollbackResult) -> None:
    assert result.after.token_ids == result.newer.token_ids
    assert result.after.logprobs == pytest.approx(result.newer.logprobs, abs=1e-5)
    assert set(result.after.policy_versions) == {1}


def test_requests_in_flight_continue_with_the_served_weights(result: RollbackResult) -> None:
    shared = len(result.newer.token_ids)
    assert result.in_flight.token_ids[:shared] == result.newer.token_ids
    assert len(result.in_flight.token_ids) == 300
    assert set(result.in_flight.policy_versions) == {1}


def test_an_engine_that_cannot_restore_the_served_weights_ends(result: RollbackResult) -> None:
    assert result.fatal.startswith("EngineError: neither")
    assert "served weights" in result.death
