"""What SGLang reports about a request, as chunks or as errors."""

from array import array
from base64 import b64encode
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tlt_common.domain.ids import RequestId
from tlt_common.domain.prompt import Prompt, SamplingParams
from tlt_common.domain.response import FinishReason, PromptLogprobs, RoutedExperts
from tlt_common.errors import InvalidRequestError, OverloadedError, RequestFailedError, TltError
from tlt_worker.engine.response import Response, refusal, sglang_params
from tlt_worker.link.stop_strings import StopStrings
from tlt_worker.model.routing import Routing

PROMPT = Prompt(request_id=RequestId("r"), token_ids=(1, 2))


def output(**reason: Any) -> dict[str, Any]:
    return {
        "output_ids": [],
        "meta_info": {"completion_tokens": 0, "finish_reason": {"type": "abort", **reason}, "weight_version": "0"},
    }


def test_what_the_client_aborted_is_no_error() -> None:
    chunk = Response(prompt=PROMPT).chunk(output(message="Aborted", status_code=None, err_type=None))
    assert chunk.finish_reason is FinishReason.ABORT


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (HTTPStatus.BAD_REQUEST, InvalidRequestError),
        (HTTPStatus.SERVICE_UNAVAILABLE, OverloadedError),
        (HTTPStatus.INTERNAL_SERVER_ERROR, RequestFailedError),
    ],
)
def test_a_refusal_is_an_error_with_its_message(status: HTTPStatus, kind: type[TltError]) -> None:
    with pytest.raises(kind, match=r"Input length .* exceeds"):
        Response(prompt=PROMPT).chunk(output(message="Input length (9 tokens) exceeds 8", status_code=status))


@pytest.mark.parametrize("logprob", [float("nan"), float("inf"), float("-inf")])
def test_a_log_probability_that_is_not_finite_fails_the_request(logprob: float) -> None:
    found = output()
    found["output_ids"] = [4, 5]
    found["meta_info"] |= {
        "completion_tokens": 2,
        "finish_reason": None,
        "output_token_logprobs": [(-0.5, 4, None), (logprob, 5, None)],
    }
    with pytest.raises(RequestFailedError, match=r"token 1 of the response is .* under policy version 0"):
        Response(prompt=PROMPT).chunk(found)


def test_a_token_forced_by_a_simulation_may_have_no_probability() -> None:
    found = output()
    found["output_ids"] = [100]
    found["meta_info"] |= {
        "completion_tokens": 1,
        "finish_reason": None,
        "output_token_logprobs": [(float("-inf"), 100, None)],
    }
    assert Response(prompt=PROMPT, forced=True).chunk(found).logprobs == (float("-inf"),)
    found["meta_info"]["output_token_logprobs"] = [(float("nan"), 100, None)]
    with pytest.raises(RequestFailedError, match="not finite"):
        Response(prompt=PROMPT, forced=True).chunk(found)


@pytest.mark.parametrize(("matched", "expected"), [("</s>", "</s>"), (7, ""), ("NaN happened", "")])
def test_the_stop_string_that_ended_a_response_is_named(matched: object, expected: str) -> None:
    response = Response(prompt=replace(PROMPT, sampling=SamplingParams(stop=("</s>",))))
    chunk = response.chunk(output(type="stop", matched=matched))
    assert (chunk.finish_reason, chunk.matched_stop) == (FinishReason.STOP, expected)


def test_stop_strings_travel_with_the_tokenizer_that_finds_them() -> None:
    asked = replace(PROMPT, sampling=SamplingParams(stop=("a", "b"), min_new_tokens=3))
    request = SimpleNamespace(sampling_params=SimpleNamespace(**sglang_params(asked, Path("model"))))
    expected = StopStrings(strings=("a", "b"), min_tokens=3, tokenizer="model/tokenizer.json")
    assert StopStrings.of(request) == expected
    request = SimpleNamespace(sampling_params=SimpleNamespace(**sglang_params(PROMPT, Path("model"))))
    assert StopStrings.of(request) is None


@given(st.integers(400, 599), st.none() | st.text())
def test_no_status_of_one_request_blames_the_engine(status: int, message: str | None) -> None:
    error = refusal({"type": "abort", "status_code": status, "message": message})
    assert isinstance(error, InvalidRequestError | OverloadedError | RequestFailedError)


ROUTING = Routing(layers=1, top_k=2, experts=8, sparse=(0,))
"""One layer, two experts of eight."""


def finished(tokens: int, routed: bytes | None, kind: str = "length") -> dict[str, Any]:
    meta = {"completion_tokens": tokens, "finish_reason": {"type": kind}, "weight_version": "0"}
    if routed is not None:
        meta["routed_experts"] = b64encode(routed).decode()
    return {"output_ids": list(range(tokens)), "meta_info": meta}


def test_experts_come_with_the_last_chunk_of_a_response_that_asks_for_them() -> None:
    asking = replace(PROMPT, routed_experts_start=1, prefix_token_ids=(7,))
    rows = array("i", [1, 2, 3, 4, 5, 6]).tobytes()  # of the prompt's second token, the prefix and the first new one
    chunk = Response(prompt=asking, routing=ROUTING).chunk(finished(2, rows))
    assert chunk.routed_experts == RoutedExperts(first=1, layers=1, top_k=2, dtype="U8", data=bytes([1, 2, 3, 4, 5, 6]))
    assert Response(prompt=PROMPT, routing=ROUTING).chunk(finished(2, None)).routed_experts is None
    assert Response(prompt=asking, routing=ROUTING).chunk(finished(2, None, "abort")).routed_experts is None


@pytest.mark.parametrize("rows", [None, bytes(16), array("i", [0, 0, 3, 4, 5, 6]).tobytes()])
def test_a_response_without_its_experts_fails(rows: bytes | None) -> None:
    asking = replace(PROMPT, routed_experts_start=1, prefix_token_ids=(7,))
    with pytest.raises(RequestFailedError, match="routed"):
        Response(prompt=asking, routing=ROUTING).chunk(finished(2, rows))


def scoring(*logprobs: float | None, tokens: int = 1) -> dict[str, Any]:
    entries = [(logprob, 1, None) for logprob in logprobs]
    meta = {
        "completion_tokens": tokens, "finish_reason": None, "weight_version": "0", "input_token_logprobs": entries,
    }  # fmt: skip
    return {"output_ids": list(range(tokens)), "meta_info": meta}


@pytest.mark.parametrize(
    ("start", "sent", "expected"),
    [
        (0, (None, -0.25, -0.5), (1, [-0.25, -0.5])),
        (1, (None, -0.25, -0.5), (1, [-0.25, -0.5])),
        (2, (None, -0.5), (2, [-0.5])),
    ],
)
def test_the_prompts_log_probabilities_come_with_the_first_tokens(
    start: int, sent: tuple[float | None, ...], expected: tuple[int, list[float]]
) -> None:
    asking = replace(PROMPT, token_ids=(1, 2, 3), prompt_logprobs_start=start, prefix_token_ids=(7,))
    response = Response(prompt=asking)
    assert response.chunk(output()).prompt_logprobs is None  # nothing was computed yet
    response = Response(prompt=asking)
    chunk = response.chunk(scoring(*sent, -9.0))  # the last one is the prefix's, which SGLang takes for the prompt's
    assert chunk.prompt_logprobs == PromptLogprobs(first=expected[0], logprobs=array("f", expected[1]))
    assert response.chunk(scoring(*sent, -9.0, tokens=2)).prompt_logprobs is None


def test_log_probabilities_of_a_prompt_that_are_missing_or_not_finite_fail_the_request() -> None:
    asking = replace(PROMPT, prompt_logprobs_start=0)
    with pytest.raises(RequestFailedError, match="returned 0 of 1 prompt log-probabilities"):
        Response(prompt=asking).chunk(scoring(None))
    with pytest.raises(RequestFailedError, match=r"token 1 of the prompt is nan.*under policy version 0"):
        Response(prompt=asking).chunk(scoring(None, float("nan")))
