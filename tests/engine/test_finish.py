"""SGLang's own request object, in the round in which it ends. No engine is started."""

import json
from array import array
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.chat_model import END as TURN_END
from tests.fakes.chat_model import write_chat_model
from tlt_worker.scheduler.stopping import (
    end_as_the_tokenizer_says,
    finish_before_abort,
    stop_at_stop_tokens,
    stop_at_strings,
)

schedule_batch = pytest.importorskip("sglang.srt.managers.schedule_batch")
pytestmark = pytest.mark.engine

END, EOS = 7, 9


def request(*tokens: int, aborted: Any) -> Any:
    from sglang.srt.sampling.sampling_params import SamplingParams

    sampling = SamplingParams(max_new_tokens=8, stop_token_ids=[END])
    sampling.normalize(None)
    found = schedule_batch.Req(
        rid="r", origin_input_text="", origin_input_ids=array("q", [1]), sampling_params=sampling, vocab_size=100
    )
    found.output_ids.extend(tokens)
    found.to_finish = aborted
    return found


def finished(*tokens: int, accepted: int, aborted: Any) -> tuple[str, list[int]]:
    found = request(*tokens, aborted=aborted)
    finish_before_abort(schedule_batch.Req.update_finish_state, found, accepted)
    assert found.finished()
    return found.finished_reason.to_json()["type"], list(found.output_ids_through_stop)


def test_an_end_token_in_the_round_of_an_abort_ends_the_response() -> None:
    aborted = schedule_batch.FINISH_ABORT()
    assert finished(3, 4, END, 5, accepted=3, aborted=aborted) == ("stop", [3, 4, END])


def test_a_response_at_its_length_is_complete() -> None:
    aborted = schedule_batch.FINISH_ABORT()
    assert finished(*range(10, 20), accepted=4, aborted=aborted) == ("length", list(range(10, 18)))


def test_otherwise_an_abort_keeps_all_tokens() -> None:
    aborted = schedule_batch.FINISH_ABORT()
    assert finished(3, 4, 5, accepted=2, aborted=aborted) == ("abort", [3, 4, 5])


def test_an_error_stays_one() -> None:
    failed = schedule_batch.FINISH_ABORT("no memory", 500)
    kind, _ = finished(3, END, accepted=1, aborted=failed)
    assert kind == "abort"


@pytest.mark.parametrize(("ignored", "expected"), [(True, [3, EOS, END]), (False, [3, EOS])])
def test_ignoring_the_models_end_tokens_keeps_the_callers(ignored: bool, expected: list[int]) -> None:
    found = request(3, EOS, END, 5, aborted=None)
    found.eos_token_ids = {EOS}
    found.sampling_params.ignore_eos = ignored
    assert stop_at_stop_tokens(schedule_batch.Req._check_token_based_finish, found, [EOS, END, 5])
    assert list(found.output_ids_through_stop) == expected
    assert (found.eos_token_ids, found.sampling_params.ignore_eos) == ({EOS}, ignored)


@pytest.fixture
def searching(tmp_path: Path) -> Any:
    """A request that ends at </s>, of which an earlier attempt has generated "<"."""
    tokenizer = write_chat_model(tmp_path)
    found = request(aborted=None)
    found.vocab_size = 300
    found.origin_input_ids = array("q", [*tokenizer.encode("</s><").ids])
    found.sampling_params.custom_params = {"tlt_prefix": 1, "tlt_stop": [["</s>"], 0, str(tmp_path / "tokenizer.json")]}
    found.sampling_params.stop_token_ids = {tokenizer.token_to_id("!")}
    found.ids = lambda text: [token for character in text for token in tokenizer.encode(character).ids]
    return found


def checked(found: Any, *rounds: str) -> tuple[Any, int] | None:
    """Add rounds of tokens until the request ends; return what ended it, and after how many tokens."""
    for text in rounds:
        new = found.ids(text)
        found.output_ids.extend(new)
        if stop_at_strings(schedule_batch.Req._check_str_based_finish, found, len(new)):
            return found.finished_reason.to_json()["matched"], len(found.output_ids_through_stop)
    return None


@pytest.mark.parametrize("rounds", [("/", "s", ">"), ("/s", "> and", " more"), ("/s> and more",)])
def test_a_stop_string_ends_a_continued_response_in_mid_round(searching: Any, rounds: tuple[str, ...]) -> None:
    assert checked(searching, *rounds) == ("</s>", 3)


def test_without_it_a_response_goes_on(searching: Any) -> None:
    assert checked(searching, "/", "t>", "</", "s") is None
    assert not searching.finished()


def test_an_end_token_before_a_stop_string_ends_the_response(searching: Any) -> None:
    [end] = searching.ids("!")
    assert checked(searching, "/!</s>") == (end, 2)


def test_a_stop_string_before_an_end_token_does(searching: Any) -> None:
    assert checked(searching, "/s>!") == ("</s>", 3)


def test_sglang_asks_for_it_in_its_check_of_a_round(searching: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    original = schedule_batch.Req._check_str_based_finish
    monkeypatch.setattr(
        schedule_batch.Req, "_check_str_based_finish", lambda self, count=1: stop_at_strings(original, self, count)
    )
    searching.output_ids.extend(searching.ids("/s> and"))
    searching.update_finish_state(len(searching.output_ids))
    assert searching.finished()
    assert list(searching.output_ids_through_stop) == searching.ids("/s>")


def test_the_tokenizers_end_of_turn_is_an_end_token_of_the_model(tmp_path: Path) -> None:
    from sglang.srt.configs.model_config import ModelConfig

    tokenizer = write_chat_model(tmp_path)
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 300, "eos_token_id": [0, 300]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": 5}))
    found = ModelConfig(str(tmp_path))
    assert found.hf_eos_token_id == {0, 5, 300}
    ends = end_as_the_tokenizer_says(ModelConfig._get_hf_eos_token_id, found)
    assert ends == {0, 5, tokenizer.token_to_id(TURN_END)}, "and none outside the vocabulary"
