"""Responses of an earlier run, in pieces."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tlt_common.errors import ConfigError
from tlt_common.recorded_rollouts import RecordedRollout
from tlt_worker.config import WorkerConfig
from tlt_worker.engine_config import EngineConfig
from tlt_worker.requests.startup import PIECE_TOKENS, chosen, pieces, startup_prompts

MODEL = {"vocab_size": 100, "max_position_embeddings": 64}


def rollout(prompt: int, response: int) -> RecordedRollout:
    return RecordedRollout(prompt=(7,) * prompt, response=tuple(range(response)))


@given(st.integers(1, 3 * PIECE_TOKENS), st.integers(1, 5 * PIECE_TOKENS))
def test_pieces_cover_a_response_and_generate_one_token_each(prompt: int, response: int) -> None:
    whole = rollout(prompt, response)
    computed = 0
    for piece in pieces(whole):
        assert piece.token_ids == whole.prompt
        assert piece.prefix_token_ids == whole.response[: len(piece.prefix_token_ids)]
        assert piece.sampling.max_new_tokens == len(piece.prefix_token_ids) + 1
        new = len(piece.token_ids) + len(piece.prefix_token_ids) - computed
        assert 0 < new <= max(PIECE_TOKENS, prompt + 1)
        computed += new
    assert computed == (prompt + response - 1 if response > 1 else 0)


def test_workers_take_different_responses_within_the_limit() -> None:
    rollouts = [rollout(5, length) for length in range(1, 200)]
    first, second = (chosen(rollouts, seed=seed, max_tokens=3000) for seed in ("w0", "w1"))
    for taken in (first, second):
        assert 2500 < sum(len(one.token_ids) for one in taken) <= 3000
    assert {len(one.response) for one in first} != {len(one.response) for one in second}
    assert chosen(rollouts, seed="w0", max_tokens=3000) == first
    assert sorted(map(str, chosen(rollouts, seed="w0", max_tokens=10**6))) == sorted(map(str, rollouts))


def config_of(directory: Path, *lines: object) -> WorkerConfig:
    (directory / "config.json").write_text(json.dumps(MODEL))
    (directory / "kept.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return WorkerConfig(model=directory, startup_responses=directory / "kept.jsonl")


def test_the_file_of_an_earlier_run_is_read(tmp_path: Path) -> None:
    line = {"prompt_token_ids": [1, 2], "token_ids": [3, 4, 5], "reward": 1.0}
    (prompt,) = startup_prompts(config_of(tmp_path, line))
    assert (prompt.token_ids, prompt.prefix_token_ids) == ((1, 2), (3, 4))
    assert startup_prompts(WorkerConfig(model=tmp_path)) == ()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"prompt_token_ids": [1], "token_ids": [100]}, r"kept.jsonl:2: token_ids is .*accepted: a list .* to 99"),
        ({"prompt_token_ids": [-1], "token_ids": [1]}, r"kept.jsonl:2: prompt_token_ids is .* invalid"),
        ({"prompt": "text", "response": "text"}, r"kept.jsonl:2: prompt_token_ids is missing"),
        ({"prompt_token_ids": [1] * 40, "token_ids": [1] * 25}, r"kept.jsonl:2: .* have 65 tokens; accepted: up to 64"),
        ([], r"kept.jsonl:2 is not a JSON object"),
    ],
)
def test_a_file_of_another_model_is_refused_by_line_and_key(tmp_path: Path, line: object, message: str) -> None:
    config = config_of(tmp_path, {"prompt_token_ids": [1], "token_ids": [1]}, line)
    with pytest.raises(ConfigError, match=f"^startup_responses: .*{message}") as refused:
        startup_prompts(config)
    assert refused.value.field == "startup_responses"


def test_a_shorter_context_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    config = config_of(tmp_path, {"prompt_token_ids": [1, 2, 3], "token_ids": [1, 2]})
    short = config.model_copy(update={"engine": EngineConfig(context_length=4)})
    with pytest.raises(ConfigError, match="accepted: up to 4, the context length"):
        startup_prompts(short)
    with pytest.raises(ConfigError, match=r"startup_responses: .*none.jsonl cannot be read"):
        startup_prompts(config.model_copy(update={"startup_responses": tmp_path / "none.jsonl"}))
