"""
Incremental detokenization, with the same rules for the gateway and for stop strings.

The text of a token depends on what is before it in two ways only. Many tokenizers drop the space before the first word
of a text, and several tokens may share one character, whose text is unknown until its last byte. A token is therefore
decoded after another token with plain text, together with tokens whose characters are still incomplete. No sequence of
tokens raises an error, and no token is decoded more than a few times.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

REPLACEMENT = "\ufffd"
"""The replacement character: bytes that do not decode to a character, or not yet."""
CONTEXT = 5
"""Tokens of a prompt that decide whether the response is the beginning of a text: as many as in SGLang."""
_MAX_OPEN = 3
"""Bytes that a character has at most before its last one."""
_MAX_HELD = 8
"""Tokens that are decoded together at most."""
_BYTE = re.compile(r"<0x[0-9A-Fa-f]{2}>")
_WORD = re.compile(r"[A-Za-z]+")


class Vocabulary:
    """
    The texts of tokens.

    Args:
        decode: Returns the text of tokens. If it raises an error, the text is a replacement character.
        lead: Tokens with plain text, after which others are decoded; see `lead_of`.
    """

    def __init__(self, decode: Callable[[list[int]], str], lead: Sequence[int] = ()) -> None:
        self._of = decode
        self._lead = list(lead)
        self._before = decode(self._lead) if lead else ""
        self._known: dict[int, str] = {}

    def text(self, token_ids: Sequence[int], *, first: bool) -> str:
        """Return the text of tokens, which either start a text or follow others."""
        if first or not self._lead:
            return self._decode(list(token_ids))
        return self._decode([*self._lead, *token_ids])[len(self._before) :]

    def next(self, token: int) -> str:
        """Return the text of one token that follows others."""
        found = self._known.get(token)
        if found is None:
            found = self._known[token] = self.text([token], first=False)
        return found

    def _decode(self, token_ids: list[int]) -> str:
        try:
            return self._of(token_ids)
        except Exception:  # noqa: BLE001 - tokenizers raises Exception itself; no text is worth the tokens of a response
            return REPLACEMENT

    def begins_after(self, prompt: Sequence[int]) -> bool:
        """Whether a response to a prompt starts a text, because no token before it has text."""
        return not self._decode([token for token in prompt[-CONTEXT:] if 0 <= token < 2**31])


class Detokenizer:
    """
    Decodes a response as it grows. Incomplete characters are held back.

    Args:
        vocabulary: The texts of tokens.
        first: Whether the response begins a text.
    """

    def __init__(self, vocabulary: Vocabulary, *, first: bool = True) -> None:
        self._vocabulary = vocabulary
        self._first = first
        self._held: list[int] = []
        """The last tokens, whose text is not complete."""
        self._shown = 0
        """Characters of their text that were returned."""

    def step(self, token: int) -> str:
        """Return the text that a token adds."""
        if not self._held and not self._first:
            text = self._vocabulary.next(token)
            if not text.endswith(REPLACEMENT):
                return text
        self._held.append(token)
        text = self._vocabulary.text(self._held, first=self._first)
        if not text.endswith(REPLACEMENT):
            return self._complete(text)
        # A token may complete one character and begin another.
        end = len(text) - min(_MAX_OPEN, len(text) - len(text.rstrip(REPLACEMENT)))
        added, self._shown = text[self._shown : end], max(self._shown, end)
        if len(self._held) > _MAX_HELD:
            added += self._shortened(text)
        return added

    def rest(self) -> str:
        """Return the text held back at the end of the response."""
        if not self._held:
            return ""
        return self._vocabulary.text(self._held, first=self._first)[self._shown :]

    def _complete(self, text: str) -> str:
        added = text[self._shown :]
        if text or len(self._held) > _MAX_HELD:
            # As long as there is no text, what has none may still decide how the first word begins.
            self._first, self._held = self._first and not text, []
        self._shown = 0
        return added

    def _shortened(self, text: str) -> str:
        """Forget all but the last tokens; return the held-back text that depends on the others."""
        open_text, kept = text[self._shown :], self._held[-_MAX_OPEN:]
        tail = self._vocabulary.text(kept, first=False)
        self._first = False
        if tail.endswith(open_text):
            self._held, self._shown = kept, len(tail) - len(open_text)
            return ""
        self._held, self._shown = [], 0
        return open_text


def lead_of(tokenizer: Any) -> list[int]:
    """Return a token of a `tokenizers.Tokenizer` that is a word rather than a byte; empty if there is none."""
    for piece, token in sorted(tokenizer.get_vocab(with_added_tokens=False).items(), key=lambda one: one[1]):
        if not _BYTE.fullmatch(piece) and _WORD.search(piece) and _WORD.fullmatch(tokenizer.decode([token])):
            return [token]
    return []
