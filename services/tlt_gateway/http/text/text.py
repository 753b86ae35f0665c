"""Converts text to tokens and back, with the model's tokenizer."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from tokenizers import Tokenizer

from tlt_common.errors import InvalidRequestError
from tlt_common.text.detokenizer import Detokenizer, Vocabulary, lead_of
from tlt_gateway.http.text.tokenizer import load_tokenizer

AT_ONCE = 2**20
"""Characters that are tokenized at a time."""


CHARACTERS_PER_TOKEN = 32
"""Characters of a text for each token of the context. A tokenizer needs 100 bytes and more for each: a text that cannot
fit is refused before. Prose has 4 per token, code 3; only the longest runs of blanks have more than this."""
LONGEST_CONTEXT = 2**20
"""Assumed while no worker has said how long the context is."""


class Text:
    """
    Args:
        tokenizer: The tokenizer. None accepts token ids only, and answers have no text.
    """

    def __init__(self, tokenizer: Tokenizer | None = None) -> None:
        self._tokenizer = tokenizer
        self._encoding = asyncio.Lock()
        lead = [] if tokenizer is None else lead_of(tokenizer)
        added = {} if tokenizer is None else tokenizer.get_added_tokens_decoder()
        self._special = frozenset(token for token, one in added.items() if one.special)
        self._vocabularies = {
            skips: Vocabulary(partial(_decoded, tokenizer, skip_special_tokens=skips), lead) for skips in (True, False)
        }

    async def encoded(self, texts: Sequence[str], *, field: str, special_tokens: bool = True) -> list[list[int]]:
        """
        Return the tokens of texts, by default with the special tokens that the tokenizer adds.

        Raises:
            InvalidRequestError: There is no tokenizer, or a text has half a surrogate pair.
        """
        tokenizer = self._require(field)

        def encode(part: list[str]) -> list[list[int]]:
            for text in part:
                text.encode()  # which tokenizers report as a wrong type
            return [one.ids for one in tokenizer.encode_batch_fast(part, add_special_tokens=special_tokens)]

        found = list[list[int]]()
        try:
            for part in _parts(texts):
                # In a thread: a prompt may be long, and the event loop streams tokens to others. One at a time: a
                # tokenizer needs more than 100 bytes for each character, and uses all cores for a part.
                async with self._encoding:
                    found += await asyncio.to_thread(encode, part)
        except UnicodeEncodeError as error:
            raise InvalidRequestError(f"{field} is not Unicode: {error.reason}", field=field) from error
        return found

    def decoded(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """Return the text of tokens, by default without special ones such as end tokens; empty without a tokenizer."""
        return self._vocabularies[skip_special_tokens].text(token_ids, first=True)

    @property
    def has_tokenizer(self) -> bool:
        """Whether there is a tokenizer."""
        return self._tokenizer is not None

    def is_special(self, token: int) -> bool:
        """Whether a token is a special token, such as the end of a turn."""
        return token in self._special

    def name(self, token: int, *, as_id: bool) -> str:
        """Return a token's label for log-probabilities: its text, or its id on request or without a tokenizer."""
        if as_id or self._tokenizer is None:
            return f"token_id:{token}"
        return self.decoded([token], skip_special_tokens=False)

    def decoder(self, *, after: Sequence[int] = (), skip_special_tokens: bool = True) -> Detokenizer:
        """Return a decoder for one response; `after` holds the prompt's tokens."""
        vocabulary = self._vocabularies[skip_special_tokens]
        return Detokenizer(vocabulary, first=vocabulary.begins_after(after))

    async def shown(self, token_ids: Sequence[int], *, skip_special_tokens: bool) -> str:
        """Return the text of any number of tokens, decoded in a thread."""
        return await asyncio.to_thread(self.decoded, token_ids, skip_special_tokens=skip_special_tokens)

    async def pieces(self, token_ids: Sequence[int], *, field: str) -> list[str]:
        """
        Return tokens as vocabulary entries, looked up in a thread.

        Raises:
            InvalidRequestError: There is no tokenizer, or one is not in its vocabulary.
        """
        tokenizer = self._require(field)

        def look_up() -> list[str | None]:
            return [tokenizer.id_to_token(token) if 0 <= token < 2**32 else None for token in token_ids]

        found = await asyncio.to_thread(look_up)
        if None in found:
            place = found.index(None)
            raise InvalidRequestError(
                f"{field}[{place}] is {token_ids[place]}; accepted: tokens of the vocabulary", field=field
            )
        return [str(piece) for piece in found]

    def _require(self, field: str) -> Tokenizer:
        if self._tokenizer is None:
            raise InvalidRequestError(
                f"{field} needs a tokenizer, and the gateway has none (http.tokenizer); accepted: token ids as prompts",
                field=field,
            )
        return self._tokenizer


def _parts(texts: Sequence[str]) -> Iterator[list[str]]:
    """Yield texts in parts of about `AT_ONCE` characters."""
    part, length = list[str](), 0
    for text in texts:
        if part and length + len(text) > AT_ONCE:
            yield part
            part, length = [], 0
        part.append(text)
        length += len(text) + 1
    yield part


def load_text(directory: Path | None) -> Text:
    """
    Load the tokenizer of a model directory.

    Raises:
        ConfigError: It has no tokenizer.json, or a file is damaged.
    """
    if directory is None:
        return Text()
    return Text(load_tokenizer(directory))


def _decoded(tokenizer: Tokenizer | None, token_ids: list[int], *, skip_special_tokens: bool) -> str:
    return "" if tokenizer is None else str(tokenizer.decode(token_ids, skip_special_tokens=skip_special_tokens))


def require_short(texts: Iterable[str], *, field: str, context_length: int) -> None:
    """
    Check that texts are short enough for the model's context.

    Raises:
        InvalidRequestError: A text is too long.
    """
    most = CHARACTERS_PER_TOKEN * (context_length or LONGEST_CONTEXT)
    for text in texts:
        if len(text) > most:
            raise InvalidRequestError(
                f"{field} has {len(text)} characters; the maximum is {most}, {CHARACTERS_PER_TOKEN} for each of the "
                f"{context_length} tokens of the context",
                field=field,
            )
