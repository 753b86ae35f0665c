"""Prompts are read, and responses are collected so that an interrupted collection continues."""

import json
from pathlib import Path
from typing import Any

import pytest

from tlt_common.errors import ConfigError
from tlt_common.recorded_rollouts import RolloutFile
from tlt_local.collecting.collected import CollectedResponses
from tlt_local.collecting.prompts import Tokenizer, read_prompts

ASKED = {"temperature": 0.6, "max_new_tokens": 8}
PROMPTS = [(1, 2), (3,)]


def chat(messages: list[dict[str, Any]]) -> list[int]:
    if messages[-1]["role"] != "user":
        raise ValueError("the last message must be the user's")
    return [7, *(len(message["content"]) for message in messages)]


TOKENIZER = Tokenizer(encode=lambda text: [len(word) for word in text.split()], chat=chat, vocab_size=50)


def test_prompts_are_text_conversations_or_token_ids(tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    lines = ({"prompt": "a bc"}, {"messages": [{"role": "user", "content": "abc"}]}, {"prompt_token_ids": [0, 49]})
    file.write_text("\n\n".join(map(json.dumps, lines)))
    assert read_prompts(file, TOKENIZER) == [(1, 2), (7, 3), (0, 49)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "has no prompts; accepted: a JSON object per line"),
        ("{", ":1 is not JSON"),
        ("[]", ":1 has no prompt; accepted"),
        ('{"text": "a"}', ":1 has no prompt; accepted"),
        ('{"prompt": "a", "messages": []}', ":1 has messages and prompt; accepted: .* one of"),
        ('{"prompt": 1}', "prompt: not text; accepted: a string"),
        ('{"prompt": ""}', "prompt is empty; accepted: at least one token"),
        ('{"prompt_token_ids": [50]}', "accepted: integers from 0 to 49"),
        ('{"prompt_token_ids": [true]}', "accepted: integers from 0 to 49"),
        ('{"prompt_token_ids": 1}', "accepted: integers from 0 to 49"),
        ('{"messages": ["a"]}', "accepted: a list of objects with role and content"),
        ('{"messages": [{"role": "assistant", "content": ""}]}', "messages: the last message must be the user's"),
    ],
)
def test_bad_prompts_are_refused_by_line_and_key(tmp_path: Path, line: str, message: str) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_text(line)
    with pytest.raises(ConfigError, match=message) as refused:
        read_prompts(file, TOKENIZER)
    assert refused.value.field == "prompts"


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--prompts: .* cannot be read"):
        read_prompts(tmp_path / "none", TOKENIZER)


def test_a_collection_continues_behind_a_torn_line_and_can_be_trained_on(tmp_path: Path) -> None:
    file = tmp_path / "responses.jsonl"
    with CollectedResponses(file, PROMPTS, ASKED) as collected:
        collected.add(1, 0, [4, 5])
        collected.add(0, 0, [6])
    file.write_bytes(file.read_bytes()[:-5])
    with CollectedResponses(file, PROMPTS, ASKED) as collected:
        assert collected.done == {(1, 0)}
        collected.add(0, 0, [8])
    found = [(one.prompt, one.response) for one in RolloutFile(path=file, vocab_size=50)]
    assert found == [((3,), (4, 5)), ((1, 2), (8,))]


@pytest.mark.parametrize(
    ("prompts", "asked", "message"),
    [
        ([(1, 2), (4,)], ASKED, "has another prompt; continue with the same, or name another file"),
        (PROMPTS, {**ASKED, "temperature": 1.0}, "has another temperature; continue"),
        ([(1, 2)], ASKED, "is not of this collection"),
    ],
)
def test_another_collection_is_not_continued(
    tmp_path: Path, prompts: list[tuple[int, ...]], asked: dict[str, float], message: str
) -> None:
    file = tmp_path / "responses.jsonl"
    with CollectedResponses(file, PROMPTS, ASKED) as collected:
        collected.add(1, 0, [4, 5])
    content = file.read_bytes()
    with pytest.raises(ConfigError, match=message), CollectedResponses(file, prompts, asked):
        pass
    assert file.read_bytes() == content


def test_a_file_of_something_else_is_not_touched(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("hello\n")
    with pytest.raises(ConfigError, match="is not of this collection"), CollectedResponses(file, PROMPTS, ASKED):
        pass
    assert file.read_text() == "hello\n"
