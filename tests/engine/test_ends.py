"""Responses of the real engine end where the model's tokenizer says, with drafts, too."""

import pytest

from tests.engine.host import Play
from tests.engine.scenes.ends import END, LEAST, MOST, EndsResult, ends
from tlt_common.domain.response import FinishReason

CONFIGURED = 1
"""The end token in config.json."""

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def result(play: Play) -> EndsResult:
    return play(ends)


def test_a_response_ends_at_the_tokenizers_end_token(result: EndsResult) -> None:
    ends = {END, CONFIGURED}
    stopped = [one for one in result.ended if one.finish_reason is FinishReason.STOP]
    assert {one.token_ids[-1] for one in stopped} == ends
    assert all(ends.isdisjoint(one.token_ids[:-1]) for one in result.ended)


def test_a_minimum_length_suppresses_it(result: EndsResult) -> None:
    assert all(END not in one.token_ids[:LEAST] and len(one.token_ids) > LEAST for one in result.long)
    assert any(one.token_ids[-1] == END for one in result.long)


def test_ignoring_end_tokens_ignores_it(result: EndsResult) -> None:
    assert {len(one.token_ids) for one in result.ignoring} == {MOST}
    assert any(END in one.token_ids for one in result.ignoring)
