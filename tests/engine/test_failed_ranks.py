"""A request that fails inside the scheduler of an engine over two ranks ends alone, unless only one rank fails."""

import pytest

from tests.engine.host import Play
from tests.engine.scenes.failures import RAISING, FailuresResult, over_two_ranks
from tlt_common.errors import EngineError, RequestFailedError

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def result(play: Play) -> FailuresResult:
    return play(over_two_ranks)


def test_both_ranks_live_on(result: FailuresResult) -> None:
    assert result.pids[0] == result.pids[1]
    assert len(result.pids[0]) == 2


def test_requests_beside_a_failing_one_get_exactly_their_tokens(result: FailuresResult) -> None:
    for name, answers in result.beside.items():
        assert answers == result.alone, name


@pytest.mark.parametrize("name", RAISING)
def test_a_request_that_fails_on_both_ranks_ends_with_its_reason(result: FailuresResult, name: str) -> None:
    assert isinstance(result.errors[name], RequestFailedError)


def test_a_rank_that_fails_alone_ends_the_engine(result: FailuresResult) -> None:
    assert isinstance(result.ended, EngineError)
