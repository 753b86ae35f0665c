"""/generate answers as SGLang's does."""

from typing import Any

import pytest

from tests.conformance.compare import differences
from tests.conformance.sides import IDS, OTHER_IDS, PERIOD, TEXT, Answer, Sides

pytestmark = pytest.mark.timeout(1200)

MISSING = frozenset({
    "cached_tokens_details", "num_retractions", "reasoning_tokens", "dp_rank",
    "response_sent_to_client_ts",
})  # fmt: skip
"""Fields of SGLang's meta_info that the gateway does not have."""
SPECULATION = ("spec_num_correct_drafts", "spec_accept_token_num", "spec_num_proposed_drafts", "spec_draft_token_num")

CASES: dict[str, dict[str, Any]] = {
    "text": {},
    "ids": {"text": None, "input_ids": list(IDS)},
    "to the end token": {"sampling_params": {"max_new_tokens": 60}},
    "end token in the text": {
        "sampling_params": {"max_new_tokens": 60, "no_stop_trim": True, "skip_special_tokens": False}
    },
    "stop token": {"sampling_params": {"stop_token_ids": [PERIOD]}},
    "stop string": {"sampling_params": {"stop": ["Got", "="]}, "return_logprob": True},
    "stop string in the text": {"sampling_params": {"stop": "Got", "no_stop_trim": True}},
    "stop string of several tokens": {"sampling_params": {"stop": ["= 24 ."], "max_new_tokens": 60}},
    "logprobs": {"return_logprob": True},
    "logprobs with text": {"return_logprob": True, "return_text_in_logprobs": True},
    "logprobs at a temperature": {"return_logprob": True, "sampling_params": {"temperature": 2.0, "top_k": 1}},
    "list of texts": {"text": [TEXT, "use 1 2 for 3 :"], "sampling_params": {"max_new_tokens": 5}},
    "list of ids": {"text": None, "input_ids": [list(IDS), list(OTHER_IDS)], "return_logprob": True},
    "list of one": {"text": [TEXT]},
    "own parameters": {
        "text": [TEXT, TEXT],
        "sampling_params": [{"temperature": 0, "max_new_tokens": 2}, {"temperature": 0, "max_new_tokens": 7}],
    },
    "names": {"text": [TEXT, TEXT], "rid": ["one", "two"], "return_logprob": [True, False]},
    "samples": {"sampling_params": {"n": 3, "max_new_tokens": 4}},
    "samples of a list": {"text": [TEXT, "use 1 2 for 3 :"], "sampling_params": {"n": 2, "max_new_tokens": 4}},
}


@pytest.mark.parametrize("case", CASES)
def test_the_answer_is_sglangs(sides: Sides, case: str) -> None:
    theirs, ours = (side.generate(**CASES[case]) for side in (sides.stock, sides.suite))
    assert theirs.status == ours.status == 200
    assert differences(theirs.content, ours.content, missing=MISSING) == []


@pytest.mark.parametrize("case", ["text", "to the end token", "logprobs", "stop token", "stop string"])
def test_a_stream_ends_with_the_whole_answer(sides: Sides, case: str) -> None:
    theirs, ours = (side.generate(**CASES[case], stream=True).content for side in (sides.stock, sides.suite))
    assert differences(theirs[-1], ours[-1], missing=MISSING) == []
    whole = ours[-1]
    for event in ours:
        assert event["meta_info"].keys() >= theirs[0]["meta_info"].keys() - MISSING - {"e2e_latency", "cached_tokens"}
        assert whole["text"].startswith(event["text"])
        assert whole["output_ids"][: len(event["output_ids"])] == event["output_ids"]


def test_the_streams_of_several_prompts_name_their_prompt(sides: Sides) -> None:
    body = {"text": [TEXT, "use 1 2 for 3 :"], "sampling_params": {"n": 2, "max_new_tokens": 4}, "stream": True}
    theirs, ours = (_last_by_index(side.generate(**body)) for side in (sides.stock, sides.suite))
    assert theirs.keys() == ours.keys() == {0, 1, 2, 3}
    assert differences(list(theirs.values()), [ours[index] for index in theirs], missing=MISSING) == []


def test_speculation_is_reported_under_both_names(sides: Sides) -> None:
    """SGLang writes the first name of each pair, and trainers read the second."""
    sides.suite.generate(sampling_params={"max_new_tokens": 60})
    meta = sides.suite.generate(sampling_params={"max_new_tokens": 60}).content["meta_info"]
    assert meta.keys() >= {*SPECULATION, "spec_verify_ct", "spec_accept_length", "spec_accept_rate"}
    assert meta["spec_num_correct_drafts"] == meta["spec_accept_token_num"]
    assert meta["spec_num_proposed_drafts"] == meta["spec_draft_token_num"] >= meta["spec_accept_token_num"]


def _last_by_index(answer: Answer) -> dict[int, Any]:
    return {event["index"]: event for event in answer.content}
