"""Where a response first contains a stop string, however its text is cut into tokens and its tokens into rounds."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from tests.fakes.chat_model import END, SPECIAL, write_chat_model
from tlt_worker.scheduler.stop_search import PARTIAL, StopSearch


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
    rounds: Sequence[int] = (),
    prefix: int = 0,
    min_tokens: int = 0,
) -> tuple[int, str] | None:
    """Generate a response in rounds of so many tokens, of one by default, until a stop string ends it."""
    search = StopSearch(lambda ids: tokenizer.decode(ids, skip_special_tokens=False), stop, min_tokens=min_tokens)
    sizes, length = iter(rounds), prefix
    while length < len(response):
        new = min(next(sizes, 1), len(response) - length)
        length += new
        tokens = [*prompt, *response[:length]][-search.tokens(new) :]
        if found := search.first(tokens, length=length, new=new):
            return found
    return None


def test_the_token_that_completes_a_string_is_the_last(tokenizer: Tokenizer) -> None:
    said = bytes_of(tokenizer, "ask <search>it</search> and")
    assert ended(tokenizer, said, "</search>") == (len("ask <search>it</search>"), "</search>")
    assert ended(tokenizer, said, "</answer>") is None


@pytest.mark.parametrize("rounds", [(), (4,) * 9, (7, 1, 30)])
def test_rounds_of_several_tokens_end_at_the_same_one(tokenizer: Tokenizer, rounds: tuple[int, ...]) -> None:
    said = bytes_of(tokenizer, "天气很好</s> 🌞</s>")
    assert ended(tokenizer, said, "🌞", "</s>", rounds=rounds) == (len("天气很好</s>".encode()), "</s>")
    assert ended(tokenizer, said, "🌞", rounds=rounds) == (len("天气很好</s> 🌞".encode()), "🌞")


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
        assert ended(tokenizer, said, "</search>", prefix=prefix, rounds=(3,) * 9) == (11, "</search>")
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


@given(seed=st.integers(0, 10**6), rounds=st.lists(st.integers(1, 9), min_size=60, max_size=60))
def test_random_tokens_end_where_their_text_first_has_the_string(
    tokenizer: Tokenizer, seed: int, rounds: list[int]
) -> None:
    rng = random.Random(seed)
    said = [rng.randrange(3, 300) for _ in range(60)]
    texts = [tokenizer.decode(said[:end], skip_special_tokens=False) for end in range(len(said) + 1)]
    place = rng.randrange(len(texts[-1]) - 3)
    stop = texts[-1][place : place + rng.randrange(1, 4)]
    if PARTIAL in stop:
        return
    expected = next(end for end, text in enumerate(texts) if stop in text)
    assert ended(tokenizer, said, stop, rounds=rounds) == (expected, stop)
