"""The text of tokens, one at a time, for every kind of tokenizer."""

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from tests.fakes.tokenizers import KINDS
from tlt_common.text.detokenizer import REPLACEMENT, Detokenizer, Vocabulary, lead_of


@cache
def made(kind: str) -> tuple[Tokenizer, Vocabulary, Vocabulary]:
    tokenizer = KINDS[kind]()
    lead = lead_of(tokenizer)
    skipping, whole = (Vocabulary(partial(tokenizer.decode, skip_special_tokens=one), lead) for one in (True, False))
    return tokenizer, skipping, whole


def pieces(vocabulary: Vocabulary, ids: Sequence[int], *, after: Sequence[int] = ()) -> list[str]:
    detokenizer = Detokenizer(vocabulary, first=vocabulary.begins_after(after))
    found = list(map(detokenizer.step, ids))
    return [*found, detokenizer.rest()]


def as_in_sglang(tokenizer: Any, ids: Sequence[int], *, after: Sequence[int] = ()) -> str:
    """Return the text that SGLang's detokenizer streams, token by token: `IncrementalDetokenizer` of its manager."""
    every, said = [*after, *ids], ""
    read = len(after)
    surrounding = max(0, read - 5)
    for end in range(read + 1, len(every) + 1):
        before, text = tokenizer.decode(every[surrounding:read]), tokenizer.decode(every[surrounding:end])
        if len(text) > len(before) and not text.endswith(REPLACEMENT):
            said, surrounding, read = said + text[len(before) :], read, end
        elif end == len(every):
            said += text[len(before) :]
    return said


def tokens(kind: str) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, KINDS[kind]().get_vocab_size() - 1), max_size=40)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data(), skips=st.booleans())
def test_no_sequence_of_tokens_raises_an_error_or_ends_in_half(kind: str, data: st.DataObject, skips: bool) -> None:
    tokenizer, skipping, whole = made(kind)
    ids, after = data.draw(tokens(kind)), data.draw(tokens(kind))
    said = "".join(pieces(skipping if skips else whole, ids, after=after))
    if kind == "byte_level" and skips:
        assert said == tokenizer.decode(ids)
    expected = as_in_sglang(partial_decoder(tokenizer, skips=skips), ids)
    alone = "".join(pieces(skipping if skips else whole, ids))
    if REPLACEMENT not in alone + expected:
        assert alone == expected == tokenizer.decode(ids, skip_special_tokens=skips)


class partial_decoder:  # noqa: N801
    """A tokenizer with a fixed choice."""

    def __init__(self, tokenizer: Tokenizer, *, skips: bool) -> None:
        self.decode = partial(tokenizer.decode, skip_special_tokens=skips)


@pytest.mark.parametrize("kind", KINDS)
@given(st.text(alphabet="the a\nä你🌞", max_size=30), st.sampled_from(["", "the", " a"]))
def test_what_was_encoded_is_decoded_as_in_transformers_and_sglang(kind: str, text: str, before: str) -> None:
    tokenizer, skipping, _ = made(kind)
    ids, after = tokenizer.encode(text).ids, tokenizer.encode(before).ids
    assert "".join(pieces(skipping, ids)) == tokenizer.decode(ids)
    assert "".join(pieces(skipping, ids, after=after)) == as_in_sglang(tokenizer, ids, after=after)


def byte(*values: int) -> list[int]:
    return [3 + value for value in values]


def test_half_a_character_and_then_a_word_is_text() -> None:
    tokenizer, skipping, _ = made("byte_fallback")
    the = tokenizer.token_to_id("▁the") or 0
    you = byte(0xE4, 0xBD, 0xA0)
    assert pieces(skipping, [the, *you, 3 + 0xE5, the]) == ["the", "", "", "你", "", REPLACEMENT + " the", ""]
    assert "".join(pieces(skipping, [*you, the])) == "你 the"
    assert "".join(pieces(skipping, byte(0xE4))) == REPLACEMENT


@pytest.mark.parametrize("kind", ["byte_level", "byte_fallback"])
def test_undecided_bytes_of_the_prompt_do_not_begin_the_response(kind: str) -> None:
    tokenizer, skipping, _ = made(kind)
    half = tokenizer.encode("ä").ids[-2:-1] if kind == "byte_level" else byte(0xE4, 0xBD)
    word = tokenizer.encode("the a").ids[-1:]
    prompt = [*tokenizer.encode("the").ids, *half]
    assert "".join(pieces(skipping, word, after=prompt)) in {" a", "a"}
    assert "".join(pieces(skipping, [], after=prompt)) == ""


def test_the_first_word_of_a_text_has_no_space_and_that_of_a_response_to_one_has() -> None:
    tokenizer, skipping, _ = made("byte_fallback")
    the = tokenizer.token_to_id("▁the") or 0
    cases: list[tuple[list[int], str]] = [
        ([], "the the"), ([1], "the the"), ([the], " the the"), ([the, 2], " the the"),
    ]  # fmt: skip
    for after, expected in cases:
        assert "".join(pieces(skipping, [2, the, 1, the], after=after)) == expected


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["half", "special", "alternating", "words"])
def test_twice_the_tokens_are_twice_the_work(kind: str, name: str) -> None:
    tokenizer, _, _ = made(kind)
    worst = {"half": [3 + 0x80], "special": [1], "alternating": [3 + 0xE4, 1, 3 + 0xBD], "words": [8, 12]}[name]
    decoded = 0

    def decode(ids: list[int]) -> str:
        nonlocal decoded
        decoded += len(ids)
        return str(tokenizer.decode(ids))

    work = []
    for length in (500, 1000):
        decoded = 0
        pieces(Vocabulary(decode, lead_of(tokenizer)), (worst * length)[:length])
        work.append(decoded)
    assert work[1] <= 2 * work[0] + 50
    assert work[1] <= 30 * 1000


def test_an_error_of_a_tokenizer_costs_text_only() -> None:
    def decode(ids: list[int]) -> str:
        raise RuntimeError(ids)

    assert set("".join(pieces(Vocabulary(decode), list(range(30))))) == {REPLACEMENT}
