"""vLLM's sampling parameters as ours."""

from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

import pytest

from tlt_common.domain.prompt import SamplingParams
from tlt_common.errors import InvalidRequestError
from tlt_common.integrations.openrlhf import sampling_of as openrlhf_sampling_of
from tlt_common.integrations.sampling import arguments_of, end_tokens_of, ending_at
from tlt_common.integrations.trl.requests import sampling_of as trl_sampling_of
from tlt_common.integrations.verl.requests import sampling_of as verl_sampling_of


@pytest.mark.parametrize(("params", "expected"), [
    ({}, {}),
    ({"temperature": None, "n": 1, "stop": None, "logprobs": 0}, {}),
    ({"temperature": 0.5, "max_tokens": 7, "min_tokens": 2}, {
        "temperature": 0.5, "max_new_tokens": 7, "min_new_tokens": 2,
    }),
    ({"top_k": -1}, {"top_k": 0}),
    ({"stop": "ab", "stop_token_ids": [3]}, {"stop": ("ab",), "stop_token_ids": (3,)}),
    ({"stop": ["a", "b"]}, {"stop": ("a", "b")}),
    ({"stop": ""}, {}),
])  # fmt: skip
def test_parameters_are_translated(params: dict[str, Any], expected: dict[str, Any]) -> None:
    assert asdict(SamplingParams(**arguments_of(params))) == asdict(SamplingParams()) | expected


@pytest.mark.parametrize(("params", "message"), [
    ({"n": 2}, "n is 2; accepted: 1"),
    ({"bad_words": ["x"]}, "bad_words is"),
    ({"logprobs": 5}, "logprobs is 5; accepted: true or false"),
    ({"beams": 2}, r"beams is not a sampling parameter here; accepted: .*stop"),
])  # fmt: skip
def test_what_has_no_effect_is_refused_by_name(params: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message) as refused:
        arguments_of(params)
    assert refused.value.field == next(iter(params))


def _trainer(generation_kwargs: dict[str, Any] | None) -> SimpleNamespace:
    return SimpleNamespace(
        temperature=0.9,
        top_p=1.0,
        top_k=None,
        min_p=None,
        repetition_penalty=1.0,
        max_completion_length=64,
        eos_token_ids=[2, 5],
        args=SimpleNamespace(generation_kwargs=generation_kwargs),
    )


def test_trls_generation_kwargs_take_precedence() -> None:
    plain = SamplingParams(temperature=0.9, max_new_tokens=64, stop_token_ids=(2, 5))
    assert trl_sampling_of(_trainer(None)) == plain
    changed = trl_sampling_of(_trainer({"temperature": 0.7, "stop": ["</answer>"], "min_tokens": 3}))
    assert (changed.temperature, changed.stop, changed.min_new_tokens) == (0.7, ("</answer>",), 3)
    assert (changed.max_new_tokens, changed.stop_token_ids) == (64, (2, 5))
    with pytest.raises(InvalidRequestError, match="num_beams is not"):
        trl_sampling_of(_trainer({"num_beams": 2}))


def test_verls_limit_is_the_room_that_is_left() -> None:
    sampling = verl_sampling_of({"max_tokens": 9, "stop": "x", "min_tokens": 1}, max_new_tokens=4, ignore_eos=True)
    assert sampling == SamplingParams(max_new_tokens=4, min_new_tokens=1, stop=("x",), ignore_eos=True)
    assert not verl_sampling_of({"ignore_eos": False}, max_new_tokens=4, ignore_eos=True).ignore_eos


def test_openrlhfs_parameters_are_attributes() -> None:
    params = SimpleNamespace(max_tokens=9, stop=["x"], skip_special_tokens=False, include_stop_str_in_output=True)
    assert openrlhf_sampling_of(params) == SamplingParams(max_new_tokens=9, stop=("x",))
    with pytest.raises(InvalidRequestError, match="prompt_logprobs is 1"):
        openrlhf_sampling_of(SimpleNamespace(prompt_logprobs=1))


def test_responses_end_where_the_trainers_tokenizer_says_too_unless_that_is_ignored() -> None:
    tokenizer, generation = SimpleNamespace(eos_token_id=2), SimpleNamespace(eos_token_id=[2, 5])
    ends = end_tokens_of(tokenizer, generation, None, SimpleNamespace(eos_token_id=None), object())
    assert ends == (2, 5)
    asked = SamplingParams(max_new_tokens=4, stop_token_ids=(9, 5))
    assert ending_at(asked, ends).stop_token_ids == (9, 5, 2)
    ignoring = SamplingParams(max_new_tokens=4, stop_token_ids=(9,), ignore_eos=True)
    assert ending_at(ignoring, ends) is ignoring
