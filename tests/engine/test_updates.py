"""One engine with a tied head, and one update in several forms."""

import pytest

from tests.engine.host import Play
from tests.engine.scenes.updates import UpdatesResult, updates

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def result(play: Play) -> UpdatesResult:
    return play(updates)


@pytest.mark.parametrize("form", ["folded", "with_head", "sharded"])
def test_the_same_weights_are_served_in_whatever_form_they_come(result: UpdatesResult, form: str) -> None:
    found = getattr(result, form)
    assert result.whole.token_ids != result.start.token_ids
    assert found.token_ids == result.whole.token_ids
    assert found.logprobs == result.whole.logprobs


def test_an_adapter_is_served_as_what_peft_merges(result: UpdatesResult) -> None:
    assert result.merged.token_ids != result.start.token_ids
    assert result.adapted.token_ids == result.merged.token_ids
    assert result.adapted.logprobs == result.merged.logprobs


def test_an_update_that_the_engine_would_serve_in_part_is_refused(result: UpdatesResult) -> None:
    assert "lm_head.weight differs from model.embed_tokens.weight" in result.other_head
    assert "model.norm.weight is missing" in result.without_norm
    assert "model.layers.2.self_attn.q_proj" in result.other_adapter
