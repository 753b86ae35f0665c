"""Prompts against a model, and what responses tell."""

from dataclasses import replace

import pytest

from tlt_common.domain.ids import RequestId
from tlt_common.domain.rollout import Prompt, ResponseStats, SamplingParams
from tlt_common.errors import InvalidRequestError

PROMPT = Prompt(request_id=RequestId("r"), token_ids=(1, 2, 3), prefix_token_ids=(4, 5))


def refused(prompt: Prompt) -> tuple[str, str]:
    with pytest.raises(InvalidRequestError) as raised:
        prompt.for_model(vocab_size=10, context_length=16)
    return raised.value.field, raised.value.message


def test_lengths_count_the_prefix_of_the_response() -> None:
    assert PROMPT.for_model(vocab_size=10, context_length=16).sampling.max_new_tokens == 13
    for most in (1, 2):
        field, message = refused(replace(PROMPT, sampling=SamplingParams(max_new_tokens=most)))
        assert field == "prompt.prefix_token_ids"
        assert f"has 2 tokens; accepted: fewer than {most}" in message


def test_a_prefix_holds_tokens_of_the_model() -> None:
    field, message = refused(replace(PROMPT, prefix_token_ids=(4, 10)))
    assert field == "prompt.prefix_token_ids"
    assert message == "prompt.prefix_token_ids[1] is 10; accepted: 0 to 9"


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_seeds_out_of_range_are_refused(seed: int) -> None:
    with pytest.raises(InvalidRequestError, match="accepted: from 0 to") as raised:
        SamplingParams(seed=seed)
    assert raised.value.field == "sampling.seed"


def test_speculative_counts_have_sglangs_new_and_old_names() -> None:
    stats = ResponseStats(
        prompt_tokens=3, completion_tokens=12, rounds=5, accepted_draft_tokens=7, proposed_draft_tokens=28
    )
    said = stats.meta_info()
    assert said["spec_num_correct_drafts"] == said["spec_accept_token_num"] == 7
    assert said["spec_num_proposed_drafts"] == said["spec_draft_token_num"] == 28
    assert (said["spec_verify_ct"], said["spec_accept_length"], said["spec_accept_rate"]) == (4, 3.0, 0.25)


def test_a_response_without_verification_tells_no_speculative_counts() -> None:
    stats = ResponseStats(prompt_tokens=3, completion_tokens=1, rounds=1, accepted_draft_tokens=0)
    assert stats.meta_info() == {"prompt_tokens": 3, "completion_tokens": 1}
