"""Where a response first contains a stop string. Pure."""

from collections.abc import Sequence

from tlt_common.text.detokenizer import Detokenizer


class StopSearch:
    """
    Looks for stop strings in the text of a response, whichever way the model has cut it into tokens.

    Args:
        text: Decodes the response, special tokens included.
        strings: The stop strings. Of those that one token completes, the first in this order ends the response.
        min_tokens: Response tokens that none of them ends.
    """

    def __init__(self, text: Detokenizer, strings: Sequence[str], *, min_tokens: int = 0) -> None:
        self._text = text
        self._strings = strings
        self._min_tokens = min_tokens
        self._kept = max(map(len, strings)) - 1
        self._tail = ""
        """The last characters of the text, with which a stop string may begin."""
        self.tokens = 0
        """Response tokens that were looked at."""

    def add(self, token: int) -> str | None:
        """Add a token of the response; return the stop string that it completes."""
        self.tokens += 1
        added = self._text.step(token)
        text, before = self._tail + added, len(self._tail)
        self._tail = text[max(0, len(text) - self._kept) :]
        if not added or self.tokens <= self._min_tokens:
            return None
        return next((one for one in self._strings if text.find(one, max(0, before - len(one) + 1)) >= 0), None)
