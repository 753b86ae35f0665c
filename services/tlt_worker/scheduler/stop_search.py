"""Where a response first contains a stop string. Pure."""

from collections.abc import Callable, Sequence

PARTIAL = "\ufffd"
"""What the bytes of an incomplete character decode to."""


class StopSearch:
    """
    Looks for stop strings in the text of tokens, whichever way the model has cut them into tokens.

    Args:
        decode: Returns the text of tokens, special ones included.
        strings: The stop strings. Of those that one token completes, the first in this order ends the response.
        min_tokens: Response tokens that none of them ends.
    """

    def __init__(self, decode: Callable[[list[int]], str], strings: Sequence[str], *, min_tokens: int = 0) -> None:
        self._decode = decode
        self._strings = strings
        self._min_tokens = min_tokens
        # A token has at least one byte, so that a string has at most as many tokens as bytes.
        self._window = max(len(string.encode()) for string in strings)

    def tokens(self, new: int) -> int:
        """Return how many of the last tokens `first` reads."""
        return self._window + new + 1

    def first(self, tokens: Sequence[int], *, length: int, new: int) -> tuple[int, str] | None:
        """
        Return the first stop string that one of the new tokens completes, and the length of the response with it.

        Args:
            tokens: Prompt and response, or the last `tokens(new)` of them.
            length: Number of response tokens. A stop string does not begin in the prompt.
            new: Number of response tokens that have not been looked at.
        """
        begin = max(0, len(tokens) - length, len(tokens) - new - self._window)
        # Tokenizers of many models write the space before a word unless it is the first of a text.
        lead, rest = list(tokens[max(0, begin - 1) : begin]), list(tokens[begin:])
        whole = self._text(lead, rest)
        if not any(string in whole for string in self._strings):
            return None
        for end in range(len(rest) - new + 1, len(rest) + 1):
            count = length - len(rest) + end
            if count > self._min_tokens and (found := self._completed(lead, rest[:end])):
                return count, found
        return None

    def _completed(self, lead: list[int], tokens: list[int]) -> str | None:
        """Return the stop string that the last token completes."""
        text, before = self._text(lead, tokens), len(self._text(lead, tokens[:-1]).rstrip(PARTIAL))
        return next((one for one in self._strings if text.find(one, max(0, before - len(one) + 1)) >= 0), None)

    def _text(self, lead: list[int], tokens: list[int]) -> str:
        whole = self._decode(lead + tokens)
        return whole[len(self._decode(lead)) :] if lead else whole
