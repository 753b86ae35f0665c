"""What SGLang reports about a request, as chunks or as errors."""

from http import HTTPStatus
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tlt_common.domain.ids import RequestId
from tlt_common.domain.rollout import FinishReason, Prompt
from tlt_common.errors import InvalidRequestError, OverloadedError, RequestFailedError, TltError
from tlt_worker.engine.response import Response, refusal

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


@given(st.integers(400, 599), st.none() | st.text())
def test_no_status_of_one_request_blames_the_engine(status: int, message: str | None) -> None:
    error = refusal({"type": "abort", "status_code": status, "message": message})
    assert isinstance(error, InvalidRequestError | OverloadedError | RequestFailedError)
