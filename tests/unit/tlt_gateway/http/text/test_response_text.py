"""The text of a response as it grows, without what ended it."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from tests.fakes.chat_model import END, SPECIAL, write_chat_model
from tests.fakes.chunks import chunk
from tlt_common.domain.response import FinishReason
from tlt_gateway.http.text.response_text import ResponseText
from tlt_gateway.http.text.text import Text

STOP = "</s>"


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return write_chat_model(tmp_path_factory.mktemp("model"))


def bytes_of(tokenizer: Tokenizer, text: str) -> list[int]:
    return [token for character in text for token in tokenizer.encode(character).ids]


def events(text: ResponseText, ids: list[int], size: int, reason: FinishReason, matched: str = "") -> list[str]:
    """Return the text after each chunk of `size` tokens."""
    found, so_far = [], ""
    for place in range(0, len(ids), size):
        is_last = place + size >= len(ids)
        part = chunk(*ids[place : place + size], finish=reason if is_last else None, matched=matched if is_last else "")
        so_far += "".join(text.added(part))
        found.append(so_far)
    return found


@given(st.text(alphabet="a<s/>€", max_size=20), st.integers(1, 9), st.booleans())
def test_nothing_is_shown_that_a_stop_string_takes_back(
    tokenizer: Tokenizer, said: str, size: int, keeps: bool
) -> None:
    if STOP in said:
        return
    ids = bytes_of(tokenizer, said + STOP)
    text = ResponseText(Text(tokenizer).decoder(), [STOP], keeps_stop=keeps)
    shown = events(text, ids, size, FinishReason.STOP, STOP)
    whole = said + (STOP if keeps else "")
    assert shown[-1] == whole
    assert all(whole.startswith(one) for one in shown)
    assert text.ended_by == STOP


@given(st.text(alphabet="a<s/>€", max_size=20), st.integers(1, 9))
def test_what_only_looked_like_a_stop_string_is_shown_in_the_end(tokenizer: Tokenizer, said: str, size: int) -> None:
    ids = bytes_of(tokenizer, said)
    text = ResponseText(Text(tokenizer).decoder(), [STOP + "!"])
    assert ["", *events(text, ids, size, FinishReason.LENGTH)][-1] == said
    assert text.ended_by is None


def test_text_behind_the_stop_string_in_its_token_is_not_shown(tokenizer: Tokenizer) -> None:
    [token] = tokenizer.encode("weather").ids[-1:]
    piece = tokenizer.decode([token])
    assert len(piece) > 1
    for keeps, expected in ((False, ""), (True, piece[0])):
        text = ResponseText(Text(tokenizer).decoder(), [piece[0]], keeps_stop=keeps)
        assert text.added(chunk(token, finish=FinishReason.STOP, matched=piece[0])) == ([expected] if expected else [])


def test_an_earlier_occurrence_within_the_minimum_stays(tokenizer: Tokenizer) -> None:
    ids = bytes_of(tokenizer, "a</s>b</s>")
    text = ResponseText(Text(tokenizer).decoder(), [STOP])
    assert "".join(text.added(chunk(*ids, finish=FinishReason.STOP, matched=STOP))) == "a</s>b"


def test_a_stop_string_of_special_tokens_is_not_in_the_text_anyway(tokenizer: Tokenizer, tmp_path: Path) -> None:
    ids = [*bytes_of(tokenizer, "hi"), SPECIAL.index(END)]
    for skips, keeps, expected in ((True, False, "hi"), (False, False, "hi"), (False, True, "hi" + END)):
        text = ResponseText(Text(tokenizer).decoder(skip_special_tokens=skips), [END], keeps_stop=keeps)
        assert "".join(text.added(chunk(*ids, finish=FinishReason.STOP, matched=END))) == expected


def test_a_stop_token_is_hidden_unless_it_is_kept(tokenizer: Tokenizer) -> None:
    ids = bytes_of(tokenizer, "hi!")
    for keeps, expected in ((False, "hi"), (True, "hi!")):
        text = ResponseText(Text(tokenizer).decoder(), [STOP], keeps_stop=keeps)
        assert "".join(text.added(chunk(*ids, finish=FinishReason.STOP))) == expected
        assert (text.ended_by, text.offsets) == (ids[-1], [0, 1, 2])
