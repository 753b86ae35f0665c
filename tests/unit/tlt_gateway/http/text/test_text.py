"""Text of tokens, with the demo's tokenizer."""

import random
from itertools import accumulate
from pathlib import Path

import pytest

from countdown.model import CHECKPOINT
from tests.fakes.chat_model import write_chat_model
from tlt_common.errors import InvalidRequestError
from tlt_gateway.http.text.text import Text, load_text


@pytest.mark.parametrize("skip", [True, False])
def test_a_token_begins_where_the_text_before_it_ends(skip: bool) -> None:
    text, rng = load_text(CHECKPOINT), random.Random(0)
    for _ in range(50):
        ids = [rng.randrange(160) for _ in range(40)]
        before = [len(text.decoded(ids[:end], skip_special_tokens=skip)) for end in range(len(ids))]
        lengths = map(len, map(text.decoder(skip_special_tokens=skip).step, ids))
        assert [0, *accumulate(lengths)][:-1] == before


def test_without_a_tokenizer_there_is_no_text() -> None:
    assert (Text().decoded([1, 2]), list(map(Text().decoder().step, [1, 2]))) == ("", ["", ""])


@pytest.mark.parametrize("skip", [True, False])
def test_decoded_token_by_token_a_response_is_the_same_text(tmp_path: Path, skip: bool) -> None:
    tokenizer, rng = write_chat_model(tmp_path), random.Random(0)
    text = load_text(tmp_path)
    said = tokenizer.encode("sunny <|im_start|>21 °C, 天气很好 🌞").ids
    for ids in [said, said[:-1], *([rng.randrange(3, 300) for _ in range(20)] for _ in range(20))]:
        decoder = text.decoder(skip_special_tokens=skip)
        assert "".join(map(decoder.step, ids)) + decoder.rest() == text.decoded(ids, skip_special_tokens=skip)


async def test_the_pieces_of_tokens_are_those_of_the_vocabulary(tmp_path: Path) -> None:
    tokenizer = write_chat_model(tmp_path)
    text = load_text(tmp_path)
    ids = tokenizer.encode("the weather").ids
    assert await text.pieces(ids, field="tokens") == [tokenizer.id_to_token(token) for token in ids]
    for bad in (-1, 300, 2**40):
        with pytest.raises(InvalidRequestError, match=r"tokens\[1\] is"):
            await text.pieces([5, bad], field="tokens")
