"""Prompts against a model, and what responses tell."""

from collections.abc import Callable
from dataclasses import replace
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_common.domain.prompt import Prompt, SamplingParams
from tlt_common.domain.response import ResponseStats
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


NOT_NUMBERS = (nan, inf, -inf)


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("temperature", (-0.1, 100.1, *NOT_NUMBERS)),
        ("top_p", (0.0, -1.0, 1.1, *NOT_NUMBERS)),
        ("min_p", (-0.1, 1.1, *NOT_NUMBERS)),
        ("top_k", (-1, 2**31)),
        ("frequency_penalty", (-2.1, 2.1, *NOT_NUMBERS)),
        ("presence_penalty", (-2.1, 2.1, *NOT_NUMBERS)),
        ("repetition_penalty", (0.0, 1e-300, 2.1, *NOT_NUMBERS)),
        ("max_new_tokens", (0, -1, 2**31)),
        ("min_new_tokens", (-1, 2**31)),
        ("stop_token_ids", ((0,) * 257,)),
        ("stop", (("",), ("x", "y" * 129), ("x",) * 33)),
    ],
)
def test_each_field_is_refused_outside_its_range_by_its_name(field: str, values: tuple[object, ...]) -> None:
    for value in values:
        with pytest.raises(
            InvalidRequestError, match=rf"^sampling\.{field}[ \[].*; (accepted: |the maximum is )"
        ) as raised:
            SamplingParams(**{field: value})  # type: ignore[arg-type]
        assert raised.value.field == f"sampling.{field}"


def test_a_stop_string_is_unicode() -> None:
    with pytest.raises(InvalidRequestError, match=r"^sampling\.stop\[1\] is not Unicode") as raised:
        SamplingParams(stop=("</s>", "\ud800"))
    assert raised.value.field == "sampling.stop"


def test_stop_strings_need_a_tokenizer() -> None:
    prompt = replace(PROMPT, sampling=SamplingParams(stop=("</s>",)))
    assert refused(prompt)[0] == "sampling.stop"
    checked = prompt.for_model(vocab_size=10, context_length=16, finds_stop_strings=True)
    assert checked.sampling.stop == ("</s>",)


def test_routed_experts_need_engines_that_return_them_and_a_start_within_the_prompt() -> None:
    asking = replace(PROMPT, routed_experts_start=0)
    assert refused(asking)[0] == "prompt.routed_experts_start"
    for start in range(len(PROMPT.token_ids) + 1):
        replace(asking, routed_experts_start=start).for_model(
            vocab_size=10, context_length=16, returns_routed_experts=True
        )
    for start in (-1, len(PROMPT.token_ids) + 1):
        with pytest.raises(InvalidRequestError, match=r"prompt\.routed_experts_start is .*; accepted: from 0 to"):
            replace(asking, routed_experts_start=start).for_model(
                vocab_size=10, context_length=16, returns_routed_experts=True
            )


def test_log_probabilities_are_of_tokens_of_the_prompt() -> None:
    last = len(PROMPT.token_ids) - 1
    for start in (0, last):
        replace(PROMPT, prompt_logprobs_start=start).for_model(vocab_size=10, context_length=16)
    for start in (-1, last + 1):
        assert refused(replace(PROMPT, prompt_logprobs_start=start))[0] == "prompt.prompt_logprobs_start"


FIELDS_OF_IDS: dict[str, Callable[[tuple[int, ...]], Prompt]] = {
    "prompt.token_ids": lambda ids: replace(PROMPT, token_ids=ids),
    "prompt.prefix_token_ids": lambda ids: replace(PROMPT, prefix_token_ids=ids),
    "sampling.stop_token_ids": lambda ids: replace(PROMPT, sampling=SamplingParams(stop_token_ids=ids)),
}


@given(st.integers(), st.sampled_from(sorted(FIELDS_OF_IDS)))
def test_every_token_id_is_in_the_vocabulary_or_refused(token: int, field: str) -> None:
    prompt = FIELDS_OF_IDS[field]((1, token))
    if 0 <= token < 10:
        prompt.for_model(vocab_size=10, context_length=16)
    else:
        assert refused(prompt) == (field, f"{field}[1] is {token}; accepted: 0 to 9")


@pytest.mark.parametrize("name", ["a\nb", "a\x1f", "\x00", "a\ud800", "r" * 321])
def test_request_ids_are_short_and_printable(name: str) -> None:
    with pytest.raises(InvalidRequestError, match=r"^prompt\.request_id .*accepted: ") as raised:
        replace(PROMPT, request_id=RequestId(name))
    assert raised.value.field == "prompt.request_id"
    replace(PROMPT, request_id=RequestId("prompt 7/é_-.:@~" * 20))


@pytest.mark.parametrize("field", ["policy_version", "max_staleness"])
def test_versions_and_staleness_are_not_negative(field: str) -> None:
    with pytest.raises(InvalidRequestError, match=rf"prompt\.{field} is -1") as raised:
        replace(PROMPT, **{field: PolicyVersion(-1)})  # type: ignore[arg-type] # by name
    assert raised.value.field == f"prompt.{field}"


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
    assert stats.meta_info() == {"prompt_tokens": 3, "completion_tokens": 1, "cached_tokens": 0}
