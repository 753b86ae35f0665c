"""Where a response first contains a stop string, however its text is cut into tokens."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models

from tests.fakes.chat_model import END, SPECIAL, write_chat_model
from tlt_common.text.detokenizer import REPLACEMENT, Detokenizer, Vocabulary, lead_of
from tlt_worker.scheduler.stopping import StopSearch


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return write_chat_model(tmp_path_factory.mktemp("model"))


def bytes_of(tokenizer: Tokenizer, text: str) -> list[int]:
    """Return the tokens of a text, one per byte."""
    whole = [tokenizer.encode(character).ids for character in text]
    return [token for ids in whole for token in ids]


def ended(
    tokenizer: Tokenizer,
    response: Sequence[int],
    *stop: str,
    prompt: Sequence[int] = (5,),
    prefix: int = 0,
    min_tokens: int = 0,
) -> tuple[int, str] | None:
    """Generate a response, whose first tokens were generated elsewhere, until a stop string ends it."""
    vocabulary = Vocabulary(lambda ids: tokenizer.decode(ids, skip_special_tokens=False), lead_of(tokenizer))
    search = StopSearch(Detokenizer(vocabulary, first=vocabulary.begins_after(prompt)), stop, min_tokens=min_tokens)
    for place, token in enumerate(response):
        found = search.add(token)
        if found and place >= prefix:
            return place + 1, found
    return None


def test_the_token_that_completes_a_string_is_the_last(tokenizer: Tokenizer) -> None:
    said = bytes_of(tokenizer, "ask <search>it</search> and")
    assert ended(tokenizer, said, "</search>") == (len("ask <search>it</search>"), "</search>")
    assert ended(tokenizer, said, "</answer>") is None


def test_of_several_strings_the_one_that_is_complete_first_ends_a_response(tokenizer: Tokenizer) -> None:
    said = bytes_of(tokenizer, "天气很好</s> 🌞</s>")
    assert ended(tokenizer, said, "🌞", "</s>") == (len("天气很好</s>".encode()), "</s>")
    assert ended(tokenizer, said, "🌞") == (len("天气很好</s> 🌞".encode()), "🌞")


def test_a_character_ends_with_its_last_byte(tokenizer: Tokenizer) -> None:
    said = bytes_of(tokenizer, "a€€")
    assert ended(tokenizer, said, "€") == (4, "€")
    assert ended(tokenizer, said, "a") == (1, "a")
    assert ended(tokenizer, said, "€€") == (7, "€€")


def test_a_string_does_not_begin_in_the_prompt(tokenizer: Tokenizer) -> None:
    prompt, said = bytes_of(tokenizer, "x</sea"), bytes_of(tokenizer, "rch> </search>")
    assert ended(tokenizer, said, "</search>", prompt=prompt) == (len(said), "</search>")


def test_a_continued_response_ends_where_a_whole_one_does(tokenizer: Tokenizer) -> None:
    said = bytes_of(tokenizer, "it</search> and </search>")
    for prefix in range(len("it</search>")):
        assert ended(tokenizer, said, "</search>", prefix=prefix) == (11, "</search>")
    assert ended(tokenizer, said, "</search>", prefix=11) == (len(said), "</search>")


def test_a_string_within_the_minimum_ends_nothing(tokenizer: Tokenizer) -> None:
    said = bytes_of(tokenizer, "ab ab ab")
    assert [ended(tokenizer, said, "ab", min_tokens=least) for least in (1, 2, 5, 8)] == [
        (2, "ab"),
        (5, "ab"),
        (8, "ab"),
        None,
    ]


def test_special_tokens_are_text(tokenizer: Tokenizer) -> None:
    said = [*bytes_of(tokenizer, "hi"), SPECIAL.index(END), *bytes_of(tokenizer, "!")]
    assert ended(tokenizer, said, END) == (3, END)


def test_of_strings_that_one_token_completes_the_first_is_named(tokenizer: Tokenizer) -> None:
    said = bytes_of(tokenizer, "ab")
    assert ended(tokenizer, said, "b", "ab") == (2, "b")
    assert ended(tokenizer, said, "ab", "b") == (2, "ab")


@given(seed=st.integers(0, 10**6))
def test_random_tokens_end_where_their_text_first_has_the_string(tokenizer: Tokenizer, seed: int) -> None:
    rng = random.Random(seed)
    said = [rng.randrange(3, 300) for _ in range(60)]
    texts = [tokenizer.decode(said[:end], skip_special_tokens=False) for end in range(len(said) + 1)]
    place = rng.randrange(len(texts[-1]) - 3)
    stop = texts[-1][place : place + rng.randrange(1, 4)]
    if REPLACEMENT in stop:
        return
    expected = next(end for end, text in enumerate(texts) if stop in text)
    assert ended(tokenizer, said, stop) == (expected, stop)


def test_tokens_without_bytes_between_its_letters_hide_no_string() -> None:
    tokenizer = Tokenizer(models.WordLevel({"": 0, "a": 1, "b": 2, "c": 3}))
    tokenizer.decoder = decoders.Fuse()
    assert ended(tokenizer, [1, *[0] * 50, 2, *[0] * 3, 3], "abc", prompt=()) == (56, "abc")
