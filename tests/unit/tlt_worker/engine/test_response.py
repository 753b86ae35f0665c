"""What SGLang reports about a request, as chunks or as errors."""

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
from tlt_common.domain.response import FinishReason
from tlt_common.errors import InvalidRequestError, OverloadedError, RequestFailedError, TltError
from tlt_worker.engine.response import Response, refusal, sglang_params
from tlt_worker.link.stop_strings import StopStrings

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
