"""A request that fails inside SGLang's scheduler ends alone."""

import pytest

from tests.engine.host import Play
from tests.engine.scenes.failures import RAISING, FailuresResult, failures
from tlt_common.errors import InvalidRequestError, RequestFailedError

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def result(play: Play) -> FailuresResult:
    return play(failures)


def test_the_engine_lives_on(result: FailuresResult) -> None:
    assert result.pids[0] == result.pids[1]


def test_requests_beside_a_failing_one_get_exactly_their_tokens(result: FailuresResult) -> None:
    for name, answers in result.beside.items():
        assert answers == result.alone, name


def test_what_the_gateway_would_refuse_is_refused_by_the_engine_too(result: FailuresResult) -> None:
    for name, message in (("stop", "is 1000000000; accepted: 0 to 63"), ("vocabulary", "64")):
        error = result.errors[name]
        assert isinstance(error, InvalidRequestError)
        assert message in error.message


def test_sglangs_refusals_are_errors_with_its_message(result: FailuresResult) -> None:
    error = result.errors["too long for the pool"]
    assert isinstance(error, InvalidRequestError)
    assert "420" in error.message


@pytest.mark.parametrize("name", RAISING)
def test_a_failing_round_ends_the_request_that_is_the_cause(result: FailuresResult, name: str) -> None:
    error = result.errors[name]
    assert isinstance(error, RequestFailedError)
    assert f"IndexError: {name}: of request {name}" in error.message


def test_an_abort_that_fails_half_way_still_ends_its_request(result: FailuresResult) -> None:
    assert "abort" in result.aborted.lower()


def test_weights_whose_update_fails_are_refused_and_the_engine_goes_on(result: FailuresResult) -> None:
    assert result.refused is not None
    assert "LookupError: version 13 was not recorded" in result.refused.message


def test_a_message_that_cannot_be_handled_fails_no_round(result: FailuresResult) -> None:
    assert len(result.despite_message.token_ids) == 60
