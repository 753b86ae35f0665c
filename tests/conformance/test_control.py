"""Aborts, pauses, weights and what is told of the server, as SGLang's. Updates weights with the same weights."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from tests.conformance.compare import differences
from tests.conformance.servers import MODEL
from tests.conformance.sides import TEXT, UNSOLVED, Side, Sides

pytestmark = pytest.mark.timeout(1200)

LONG = {"max_new_tokens": 2000, "temperature": 0, "ignore_eos": True}
READ: dict[str, dict[str, type]] = {
    "/model_info": {
        "model_path": str, "served_model_name": str, "tokenizer_path": str, "is_generation": bool,
        "weight_version": str,
    },
    "/server_info": {"model_path": str, "served_model_name": str, "weight_version": str, "version": str},
}  # fmt: skip
"""Fields that clients read of SGLang's, most of which describe one engine's launch."""
LOADS = ("dp_rank", "num_running_reqs", "num_waiting_reqs")


@pytest.mark.parametrize(("path", "other"), [("/model_info", "/get_model_info"), ("/server_info", "/get_server_info")])
def test_what_clients_read_of_the_server_is_told(sides: Sides, path: str, other: str) -> None:
    theirs, ours = sides.stock.get(path).content, sides.suite.get(path).content
    for name, kind in READ[path].items():
        assert isinstance(theirs[name], kind)
        assert isinstance(ours[name], kind)
    assert sides.suite.get(other).content == ours


def test_the_models_are_listed(sides: Sides) -> None:
    theirs, ours = (side.get("/v1/models") for side in (sides.stock, sides.suite))
    assert theirs.status == ours.status == 200
    assert differences(theirs.content, ours.content) == []


def test_the_loads_are_told(sides: Sides) -> None:
    for side in (sides.stock, sides.suite):
        (load,) = side.get("/v1/loads").content["loads"]
        assert [load[name] for name in LOADS] == [0, 0, 0]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_the_cache_can_be_flushed(sides: Sides, method: str) -> None:
    for side in (sides.stock, sides.suite):
        assert side.client.request(method, "/flush_cache").status_code == 200


@pytest.mark.parametrize("path", ["/health", "/health_generate"])
def test_the_server_is_healthy(sides: Sides, path: str) -> None:
    for side in (sides.stock, sides.suite):
        assert side.get(path).status == 200


@pytest.mark.parametrize("abort", [{"rid": "mine"}, {"abort_all": True}], ids=["by name", "all"])
def test_an_aborted_answer_has_what_was_generated(sides: Sides, abort: dict[str, Any]) -> None:
    both = (sides.stock, sides.suite)
    theirs, ours = (_interrupted(side, partial(side.post, "/abort_request", abort)) for side in both)
    assert differences(theirs["meta_info"]["finish_reason"], ours["meta_info"]["finish_reason"]) == []
    for answer in (theirs, ours):
        count = len(answer["output_ids"])
        assert 0 < count < 2000
        assert len(answer["meta_info"]["output_token_logprobs"]) == count == answer["meta_info"]["completion_tokens"]


def test_an_abort_without_a_name_aborts_nothing(sides: Sides) -> None:
    for side in (sides.stock, sides.suite):
        with ThreadPoolExecutor(1) as thread:
            answer = thread.submit(side.generate, sampling_params={"max_new_tokens": 60})
            assert side.post("/abort_request", {"rid": ""}).status == 200
            assert answer.result().content["meta_info"]["finish_reason"]["type"] == "stop"


@pytest.mark.parametrize("mode", ["retract", "in_place"])
def test_an_answer_continues_after_a_pause(sides: Sides, mode: str) -> None:
    """As if it had not been paused; a paused one of SGLang's sometimes ends as aborted."""
    told = []

    def pause() -> None:
        for side in (sides.stock, sides.suite):
            calls = side.post("/pause_generation", {"mode": mode}), side.post("/continue_generation", {})
            assert {call.status for call in calls} == {200}
            told.append([call.content for call in calls])

    sampling = {"max_new_tokens": 300, "temperature": 0}
    paused = _interrupted(sides.suite, pause, text=UNSOLVED, sampling_params=sampling)
    whole = sides.stock.generate(text=UNSOLVED, sampling_params=sampling).content
    assert paused["output_ids"] == whole["output_ids"]
    assert told[0] == told[1]


def test_a_pause_aborts_by_default(sides: Sides) -> None:
    for side in (sides.stock, sides.suite):
        answer = _interrupted(side, partial(side.post, "/pause_generation", {}))
        assert answer["meta_info"]["finish_reason"]["type"] == "abort"
        assert side.post("/continue_generation", {}).status == 200


def test_updated_weights_are_told_in_answers(sides: Sides) -> None:
    body = {"model_path": str(MODEL), "weight_version": "7", "flush_cache": True, "abort_all_requests": False}
    theirs, ours = sides.both("/update_weights_from_disk", body)
    assert theirs.status == ours.status == 200
    assert differences(theirs.content, ours.content) == []
    answers = [side.generate().content for side in (sides.stock, sides.suite)]
    assert [answer["meta_info"]["weight_version"] for answer in answers] == ["7", "7"]
    assert answers[0]["output_ids"] == answers[1]["output_ids"]
    assert [side.get("/model_info").content["weight_version"] for side in (sides.stock, sides.suite)] == ["7", "7"]
    assert sides.suite.get("/get_weight_version").content == {"weight_version": "7"}


def test_weights_that_cannot_be_loaded_change_nothing(sides: Sides) -> None:
    theirs, ours = sides.both("/update_weights_from_disk", {"model_path": "/nowhere/at/all"})
    assert theirs.status == ours.status == 400
    assert differences(theirs.content, ours.content) == []
    for side in (sides.stock, sides.suite):
        assert side.generate().status == 200


def _interrupted(side: Side, act: Callable[[], object], **body: Any) -> Any:
    """Start a long answer, act once it has tokens, and return the answer's last event."""
    sent = {"text": TEXT, "sampling_params": LONG, "rid": "mine", "return_logprob": True, "stream": True, **body}
    last = None
    with side.client.stream("POST", "/generate", json=sent) as answer:
        for line in answer.iter_lines():
            content = line.removeprefix("data: ")
            if not content or content == "[DONE]":
                continue
            if last is None:
                act()
            last = json.loads(content)
    return last
