"""Text of a response as it grows, without the stop that ends it."""

from collections.abc import Sequence

from tlt_common.domain.response import FinishReason, TokenChunk
from tlt_common.text.detokenizer import Detokenizer


class ResponseText:
    """
    The text of one response as it grows. Text that may start a stop string is held back until that is decided.

    Args:
        decoder: Decodes the tokens.
        stop: The stop strings.
        keeps_stop: Whether the stop token or the stop string belongs to the text.
    """

    def __init__(self, decoder: Detokenizer, stop: Sequence[str] = (), *, keeps_stop: bool = False) -> None:
        self._decoder = decoder
        self._stop = stop
        self._keeps_stop = keeps_stop
        self._length = 0
        self._before = ""
        """The last characters before the held ones, with which a stop string that is to be shown may begin."""
        self._held: list[str] = []
        self._last: int | None = None
        self.ended_by: str | int | None = None
        """The stop string or the token that ended the response; None if neither did."""
        self.offsets: list[int] = []
        """Of each token of the last chunk, the position in the text at which its own begins."""

    def added(self, chunk: TokenChunk) -> list[str]:
        """Return the next pieces of text; without stop strings, one piece per token of the chunk."""
        stopped = chunk.finish_reason is FinishReason.STOP
        hides_last = stopped and not (chunk.matched_stop or self._keeps_stop)
        ids, self.offsets = chunk.token_ids, []
        self._last = ids[-1] if ids else self._last
        self.ended_by = (chunk.matched_stop or self._last) if stopped else None
        for place, token in enumerate(ids):
            self.offsets.append(self._length)
            self._add("" if hides_last and place == len(ids) - 1 else self._decoder.step(token))
        if chunk.finish_reason is not None:
            self._add(self._decoder.rest())
        if chunk.matched_stop:
            return self._released(self._end(chunk.matched_stop))
        return self._released(len("".join(self._held)) - (0 if chunk.finish_reason else self._doubtful()))

    def _add(self, piece: str) -> None:
        self._held.append(piece)
        self._length += len(piece)

    def _end(self, matched: str) -> int:
        """Return how many of the held characters belong to the text after a stop string has ended it."""
        text, last = self._before + "".join(self._held), len("".join(self._held[-2:]))
        # The last token completes it; the same string may have occurred before `min_new_tokens`.
        at = text.find(matched, max(0, len(text) - last - len(matched) + 1))
        if at < 0:  # it consists of special tokens, which the text leaves out
            return len(text) - len(self._before)
        return max(0, at + (len(matched) if self._keeps_stop else 0) - len(self._before))

    def _doubtful(self) -> int:
        """Return how many of the held characters may start a stop string that is to be hidden."""
        if self._keeps_stop or not self._stop:
            return 0
        return begun("".join(self._held), self._stop)

    def _released(self, count: int) -> list[str]:
        """Return the first held characters as pieces and keep holding the rest."""
        found, rest = list[str](), list[str]()
        for piece in self._held:
            if count >= len(piece) and not rest:
                found.append(piece)
                count -= len(piece)
            elif count and not rest:
                found.append(piece[:count])
                rest.append(piece[count:])
            else:
                rest.append(piece)
        self._held = rest
        if self._stop:
            self._before = (self._before + "".join(found))[-max(map(len, self._stop)) :]
        return found


def begun(text: str, strings: Sequence[str]) -> int:
    """Return how many characters at the end of a text may start one of the strings."""
    longest = 0
    for string in strings:
        for length in range(min(len(string) - 1, len(text)), longest, -1):
            if text.endswith(string[:length]):
                longest = length
                break
    return longest
