"""The prefixes that a scripted worker has cached."""

from collections import deque
from collections.abc import Sequence
from itertools import takewhile

KEPT = 64


class PrefixCache:
    """The tokens of the last requests, with the weights of one version."""

    def __init__(self) -> None:
        self._kept: deque[tuple[str, tuple[int, ...]]] = deque(maxlen=KEPT)
        self._version = 0

    def cached(self, tokens: Sequence[int], *, version: int, key: str = "") -> int:
        """Return how many of the first tokens need no prefill; the last one always does."""
        if version != self._version:
            self._kept.clear()
            self._version = version
        return max((_common(kept, tokens[:-1]) for whose, kept in self._kept if whose == key), default=0)

    def add(self, tokens: Sequence[int], *, key: str = "") -> None:
        """Keep the tokens of a request, whose last one was sampled but not run."""
        self._kept.append((key, tuple(tokens)[:-1]))

    def clear(self) -> None:
        """Lose everything, as a restart does."""
        self._kept.clear()


def _common(kept: Sequence[int], tokens: Sequence[int]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(kept, tokens, strict=False)))
