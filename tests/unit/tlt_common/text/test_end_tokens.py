"""Which tokens end a response, by a model's files: as SGLang and its tokenizer say."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.tokenizers import KINDS, byte_level
from tlt_common.text.end_tokens import TURN_ENDS, end_tokens, tokenizer_end_tokens
from tlt_common.text.special_tokens import CLASSES, SpecialTokens

ADDED = {"__type": "AddedToken", "content": "</s>", "lstrip": False, "rstrip": False, "normalized": False}


def write(directory: Path, files: dict[str, Any], *, kind: str = "byte_level", added: tuple[str, ...] = ()) -> Path:
    directory.mkdir(exist_ok=True)
    tokenizer = KINDS[kind]()
    tokenizer.add_tokens(list(added))
    tokenizer.save(str(directory / "tokenizer.json"))
    for name, content in files.items():
        (directory / f"{name}.json").write_text(json.dumps(content))
    return directory


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, set()),
        ({"config": {"eos_token_id": 9}}, {9}),
        ({"config": {"eos_token_id": [9, 8]}, "generation_config": {"eos_token_id": 7}}, {7, 8, 9}),
        ({"config": {"eos_token_id": 9}, "tokenizer_config": {"eos_token": "</s>"}}, {2, 9}),
        ({"config": {"eos_token_id": None}, "tokenizer_config": {"eos_token": ADDED}}, {2}),
        ({"tokenizer_config": {"eos_token": None}}, set()),
        ({"tokenizer_config": {"eos_token": "nowhere"}}, set()),
        ({"special_tokens_map": {"eos_token": {"content": "</s>"}}}, {2}),
        ({"tokenizer_config": {"eos_token": "<s>"}, "special_tokens_map": {"eos_token": "</s>"}}, {2}),
        (
            {
                "tokenizer_config": {"eos_token": "<s>", "added_tokens_decoder": {"1": {"content": "<s>"}}},
                "special_tokens_map": {"eos_token": "</s>"},
            },
            {1},
        ),
        ({"tokenizer_config": {"eos_token": "the"}}, {byte_level().token_to_id("the")}),
        ({"tokenizer_config": {"tokenizer_class": "LlamaTokenizerFast"}}, {2}),
    ],
)
def test_all_files_that_name_end_tokens_count(tmp_path: Path, files: dict[str, Any], expected: set[int]) -> None:
    assert end_tokens(write(tmp_path, files)) == expected


def test_turn_ends_that_no_file_names_are_those_of_sglang(tmp_path: Path) -> None:
    common = pytest.importorskip("sglang.srt.utils.hf_transformers.common")
    assert common._ADDITIONAL_STOP_TOKEN_TEXTS == TURN_ENDS
    model = write(tmp_path, {"tokenizer_config": {"eos_token": "</s>"}}, added=("<|eom_id|>",))
    assert tokenizer_end_tokens(model) == {2, byte_level().get_vocab_size()}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("eos", ["</s>", "the", "a", None])
def test_they_are_those_of_sglangs_tokenizer(tmp_path: Path, kind: str, eos: str | None) -> None:
    tokenizers = pytest.importorskip("sglang.srt.utils.hf_transformers.tokenizer")
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": eos}
    model = write(tmp_path, {"tokenizer_config": config}, kind=kind, added=("<|eom_id|>", "<|ifm|im_end|>"))
    theirs = tokenizers.get_tokenizer(str(model))
    expected = {theirs.eos_token_id, *(theirs.additional_stop_token_ids or ())} - {None}
    known = byte_level().get_vocab_size() if kind == "byte_level" else KINDS[kind]().get_vocab_size()
    # A token that the tokenizer does not have is given an id behind the vocabulary, which no response contains.
    assert {token for token in expected if token < known + 2} == tokenizer_end_tokens(model)


@pytest.mark.parametrize("name", CLASSES)
def test_what_no_file_says_is_the_default_of_the_class_in_transformers(name: str) -> None:
    from inspect import signature

    transformers = pytest.importorskip("transformers")
    parameters = signature(getattr(transformers, name).__init__).parameters
    for token, text in CLASSES[name].items():
        assert str(parameters[token].default) == text


@pytest.mark.parametrize("content", ["{", "[]", '{"added_tokens_decoder": [1]}', '{"extra_special_tokens": "x"}'])
def test_damaged_files_are_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "tokenizer_config.json").write_text(content)
    with pytest.raises(ValueError, match=r".+"):
        SpecialTokens.of(tmp_path)
