"""/v1/completions answers as SGLang's does."""

from typing import Any

import pytest

from tests.conformance.compare import differences
from tests.conformance.sides import IDS, OTHER_IDS, PERIOD, TEXT, Sides

pytestmark = pytest.mark.timeout(1200)

MISSING = frozenset({"prompt_tokens_details", "completion_tokens_details", "reasoning_tokens"})
"""Fields of SGLang's usage that the gateway does not have, and cached tokens, which SGLang counts only if asked to."""

CASES: dict[str, dict[str, Any]] = {
    "text": {},
    "ids": {"prompt": list(IDS)},
    "to the end token": {"max_tokens": 60},
    "stop token": {"stop_token_ids": [PERIOD]},
    "stop token in the text": {"stop_token_ids": [PERIOD], "no_stop_trim": True},
    "stop string": {"stop": ["Got", "="]},
    "stop string in the text": {"stop": "Got", "no_stop_trim": True},
    "logprobs": {"logprobs": 1},
    "token ids": {"return_token_ids": True},
    "list of texts": {"prompt": [TEXT, "use 1 2 for 3 :"], "max_tokens": 4},
    "list of ids": {"prompt": [list(IDS), list(OTHER_IDS)], "max_tokens": 4},
    "samples": {"n": 2, "max_tokens": 4},
    "name": {"rid": "mine"},
}


@pytest.mark.parametrize("case", CASES)
def test_the_answer_is_sglangs(sides: Sides, case: str) -> None:
    theirs, ours = (side.complete(**CASES[case]) for side in (sides.stock, sides.suite))
    assert theirs.status == ours.status == 200
    assert differences(theirs.content, ours.content, missing=MISSING) == []


@pytest.mark.parametrize("case", ["text", "to the end token", "logprobs", "token ids", "samples", "stop string"])
def test_a_stream_has_the_same_parts(sides: Sides, case: str) -> None:
    options = {"stream": True, "stream_options": {"include_usage": True}}
    theirs, ours = (side.complete(**CASES[case], **options).content for side in (sides.stock, sides.suite))
    for index in range(CASES[case].get("n", 1)):
        assert _whole(theirs, index) == _whole(ours, index)
    for theirs_at, ours_at in ((theirs[0], ours[0]), (theirs[-1], ours[-1])):
        assert theirs_at.keys() == ours_at.keys()
        assert differences(_emptied(theirs_at), _emptied(ours_at), missing=MISSING) == []


def _emptied(event: Any) -> Any:
    """Return an event without what depends on the number of its tokens, and on which sample had some first."""
    empty: dict[str, Any] = {"text": "", "logprobs": None, "finish_reason": None, "token_ids": [], "matched_stop": None}
    empty["index"] = 0
    return event | {"choices": [choice | empty for choice in event["choices"]]}


def _whole(events: list[Any], index: int) -> tuple[str, list[int], list[str], set[Any]]:
    """Return text, token ids, tokens with logprobs and finish reasons of one choice."""
    choices = [choice for event in events for choice in event["choices"] if choice["index"] == index]
    return (
        "".join(choice["text"] for choice in choices),
        [token for choice in choices for token in choice.get("token_ids") or ()],
        [token for choice in choices for token in (choice["logprobs"] or {"tokens": ()})["tokens"]],
        {choice["finish_reason"] for choice in choices} - {None},
    )
