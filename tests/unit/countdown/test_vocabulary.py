from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from countdown.vocabulary import (
    BOS_ID,
    EOS_ID,
    PAD_ID,
    VOCABULARY,
    VOCABULARY_SIZE,
    WORDS,
    decode,
    encode,
    prompt_ids,
    response_text,
    save_tokenizer,
)

IDS = st.lists(st.integers(0, VOCABULARY_SIZE - 1), min_size=1, max_size=40)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    directory: Path = tmp_path_factory.mktemp("tokenizer")
    save_tokenizer(directory)
    return AutoTokenizer.from_pretrained(directory)


def test_every_word_has_one_id() -> None:
    assert len(WORDS) == VOCABULARY_SIZE
    assert [VOCABULARY[word] for word in WORDS] == list(range(VOCABULARY_SIZE))
    assert (PAD_ID, BOS_ID, EOS_ID) == (0, 1, 2)


@given(IDS)
def test_encoding_undoes_decoding(ids: list[int]) -> None:
    assert encode(decode(ids)) == ids


@given(IDS)
def test_the_saved_tokenizer_agrees_with_the_vocabulary(tokenizer: Any, ids: list[int]) -> None:
    text = decode(ids)
    assert tokenizer.decode(ids) == text
    assert tokenizer(text, add_special_tokens=False).input_ids == ids


def test_the_saved_tokenizer_begins_a_prompt(tokenizer: Any) -> None:
    prompt = "Numbers 2 7 . Target 5 ."
    ids = tokenizer(prompt).input_ids
    assert ids == prompt_ids(prompt)
    assert ids[0] == BOS_ID
    assert tokenizer.decode(ids, skip_special_tokens=True) == prompt
    assert (tokenizer.pad_token_id, tokenizer.eos_token_id) == (PAD_ID, EOS_ID)


def test_an_unknown_word_is_refused() -> None:
    with pytest.raises(KeyError):
        encode("Numbers 2 7 / 5")


def test_a_response_ends_before_its_end_token() -> None:
    ids = encode("Answer : 7 - 2 = 5")
    assert response_text(ids) == response_text([*ids, EOS_ID, PAD_ID]) == "Answer : 7 - 2 = 5"
