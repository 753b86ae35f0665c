"""What SGLang refuses is refused, with a body that its clients and OpenAI's understand."""

from typing import Any

import pytest

from tests.conformance.sides import Sides, completion_body, generate_body

pytestmark = pytest.mark.timeout(1200)

GENERATE: dict[str, dict[str, Any]] = {
    "temperature": {"sampling_params": {"temperature": -1}},
    "top_p": {"sampling_params": {"top_p": 0}},
    "top_k": {"sampling_params": {"top_k": -5, "temperature": 1}},
    "min_p": {"sampling_params": {"min_p": 2}},
    "frequency_penalty": {"sampling_params": {"frequency_penalty": 3}},
    "presence_penalty": {"sampling_params": {"presence_penalty": -3}},
    "repetition_penalty": {"sampling_params": {"repetition_penalty": 0}},
    "min_new_tokens": {"sampling_params": {"min_new_tokens": 30, "max_new_tokens": 20}},
    "max_new_tokens": {"sampling_params": {"max_new_tokens": -1}},
    "type": {"sampling_params": {"max_new_tokens": "many"}},
    "unknown": {"sampling_params": {"warmth": 1}},
    "no prompt": {"text": None},
    "prompt of a wrong type": {"text": None, "input_ids": "text"},
    "too long": {"text": None, "input_ids": [4] * 5000},
    "no list": {"sampling_params": {"stop_token_ids": 4}},
}
COMPLETION: dict[str, dict[str, Any]] = {
    "temperature": {"temperature": -1},
    "max_tokens": {"max_tokens": 0},
    "type": {"temperature": "hot"},
    "no prompt": {"prompt": None},
    "empty prompt": {"prompt": []},
}


@pytest.mark.parametrize("case", GENERATE)
def test_generate_refuses_what_sglang_refuses(sides: Sides, case: str) -> None:
    _both_refuse(sides, "/generate", generate_body(GENERATE[case]))


@pytest.mark.parametrize("case", COMPLETION)
def test_completions_refuse_what_sglang_refuses(sides: Sides, case: str) -> None:
    _both_refuse(sides, "/v1/completions", completion_body(COMPLETION[case]))


@pytest.mark.parametrize("path", ["/generate", "/v1/completions", "/update_weights_from_disk", "/pause_generation"])
@pytest.mark.parametrize("content", [b"{", b"[1]", b'"text"'])
def test_a_body_that_is_no_object_is_refused(sides: Sides, path: str, content: bytes) -> None:
    headers = {"content-type": "application/json"}
    theirs, ours = (side.client.post(path, content=content, headers=headers) for side in (sides.stock, sides.suite))
    assert theirs.status_code == ours.status_code == 400
    assert ours.json()["error"]["message"]


def test_tokens_outside_the_vocabulary_are_refused(sides: Sides) -> None:
    """They end SGLang's scheduler, so it is not asked."""
    for ids in ([4, 160], [-1], [2**40]):
        answer = sides.suite.generate(text=None, input_ids=ids)
        assert answer.status == 400
        assert (answer.refused_field or "").startswith("input_ids")


def test_an_unknown_path_is_not_found(sides: Sides) -> None:
    theirs, ours = sides.stock.get("/nothing"), sides.suite.get("/nothing")
    assert theirs.status == ours.status == 404


def _both_refuse(sides: Sides, path: str, body: dict[str, Any]) -> None:
    theirs, ours = sides.both(path, body)
    assert theirs.status == 400, theirs.content
    assert ours.status == 400, ours.content
    error = ours.content["error"]
    assert error["message"]
    assert error["param"]
    assert error["code"] == 400
