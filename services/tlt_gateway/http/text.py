"""Text to tokens and back, with the model's tokenizer."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from tlt_common.errors import ConfigError, InvalidRequestError

FILE = "tokenizer.json"
CONTEXT = 5
"""Tokens before a text that decide how it begins: as many as in SGLang."""


class Decoder:
    """
    Decodes a response as it grows: every token once. Half a character is kept back until the rest of it is there.

    Args:
        tokenizer: None: there is no text.
        after: The tokens before the response; see `Text.decoded`.
        skip_special_tokens: Leave out end tokens and the like.
    """

    def __init__(
        self, tokenizer: Tokenizer | None, *, after: Sequence[int] = (), skip_special_tokens: bool = True
    ) -> None:
        self._tokenizer = tokenizer
        self._skips = skip_special_tokens
        self._stream = DecodeStream(skip_special_tokens=skip_special_tokens)
        self._kept: list[int] = []
        for token in after[-CONTEXT:]:
            self.step(token)
        self._kept.clear()

    def step(self, token: int) -> str:
        """Return the text that a token adds."""
        if self._tokenizer is None:
            return ""
        added = self._stream.step(self._tokenizer, token)
        self._kept = [*self._kept, token] if added is None else []
        return str(added or "")

    def rest(self) -> str:
        """Return what was kept back, at the end of the response."""
        if self._tokenizer is None or not self._kept:
            return ""
        return str(self._tokenizer.decode(self._kept, skip_special_tokens=self._skips))


class Text:
    """
    Args:
        tokenizer: None: only token ids are accepted, and answers have no text.
    """

    def __init__(self, tokenizer: Tokenizer | None = None) -> None:
        self._tokenizer = tokenizer

    async def encoded(self, texts: Sequence[str], *, field: str, special_tokens: bool = True) -> list[list[int]]:
        """
        Return the tokens of texts, by default with the special tokens that the tokenizer adds.

        Raises:
            InvalidRequestError: There is no tokenizer, or a text has half a surrogate pair.
        """
        tokenizer = self._require(field)

        def encode() -> list[list[int]]:
            for text in texts:
                text.encode()  # which tokenizers report as a wrong type
            return [one.ids for one in tokenizer.encode_batch(list(texts), add_special_tokens=special_tokens)]

        try:
            # In a thread: a prompt may be long, and the event loop streams tokens to others.
            return await asyncio.to_thread(encode)
        except UnicodeEncodeError as error:
            raise InvalidRequestError(f"{field} is not Unicode: {error.reason}", field=field) from error

    def decoded(self, token_ids: Sequence[int], *, after: Sequence[int] = (), skip_special_tokens: bool = True) -> str:
        """
        Return the text of tokens; empty without a tokenizer.

        Args:
            token_ids: The tokens.
            after: The tokens before them, such as the prompt: tokenizers of many models write the space before a word
                unless it is the first of a text.
            skip_special_tokens: Leave out end tokens and the like.
        """
        if self._tokenizer is None:
            return ""
        before = list(after[-CONTEXT:])
        whole = str(self._tokenizer.decode([*before, *token_ids], skip_special_tokens=skip_special_tokens))
        if not before:
            return whole
        return whole[len(self._tokenizer.decode(before, skip_special_tokens=skip_special_tokens)) :]

    @property
    def has_tokenizer(self) -> bool:
        """Whether there is a tokenizer."""
        return self._tokenizer is not None

    def name(self, token: int, *, as_id: bool) -> str:
        """Return what a token is called beside its log-probability: its text, or its id if asked or without text."""
        if as_id or self._tokenizer is None:
            return f"token_id:{token}"
        return self.decoded([token], skip_special_tokens=False)

    def decoder(self, *, after: Sequence[int] = (), skip_special_tokens: bool = True) -> Decoder:
        """Return a decoder for one response, to a prompt of the tokens `after`."""
        return Decoder(self._tokenizer, after=after, skip_special_tokens=skip_special_tokens)

    def pieces(self, token_ids: Sequence[int], *, field: str) -> list[str]:
        """
        Return tokens as the vocabulary has them.

        Raises:
            InvalidRequestError: There is no tokenizer, or one is not in its vocabulary.
        """
        tokenizer = self._require(field)
        found = [tokenizer.id_to_token(token) if 0 <= token < 2**32 else None for token in token_ids]
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


def load_text(directory: Path | None) -> Text:
    """
    Load the tokenizer of a model directory.

    Raises:
        ConfigError: It has no tokenizer.json, or a damaged one.
    """
    if directory is None:
        return Text()
    try:
        return Text(Tokenizer.from_file(str(directory / FILE)))
    except Exception as error:  # tokenizers raises Exception itself
        raise ConfigError(
            f"http.tokenizer: {directory / FILE} cannot be loaded: {error}; accepted: a directory with a {FILE}",
            field="http.tokenizer",
        ) from error
