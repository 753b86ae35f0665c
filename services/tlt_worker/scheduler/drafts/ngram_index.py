"""
Drafts by retrieval: the continuation of an earlier occurrence of the last tokens, in the same response or in another
one to the same prompt.

Responses to one prompt repeat each other and themselves, so such drafts are often accepted, and they take no model
pass. For a few lengths, every text stores where each run of that many tokens last occurred: a new token costs one
dictionary entry per length, and a lookup one access per length and text. Texts are grouped by prompt. Memory is bounded
in bytes; the least recently used group is evicted first. Pure: the same calls return the same drafts.

Not SGLang's `NgramCorpus`, which keeps one trie for all prompts, evicts by capacity only and is compiled on first use.
"""

import sys
from array import array
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import chain

LENGTHS = (6, 4, 2)
"""
Run lengths to look up, longest first.

On the demo's task (groups of 8, temperature 1, up to 1536 tokens, up to 5 drafts) the accept length is 3.5 in the first
epoch and 4.7 in the second. Longer runs and more lengths do not increase it; single tokens add 2 %.
"""

KEPT_RESPONSES = 16
"""Finished responses kept per prompt, newest first: this epoch's siblings and the previous epoch's."""

MAX_REQUESTS = 4096
"""Maximum running requests in the index. Some end unnoticed; above this the oldest is dropped."""

_KEY_BITS = 2**30 - 1
"""Keys are hashes truncated to what Python stores in 32 bytes. Colliding runs are distinguished by their tokens."""
_OBJECT_BYTES = 32


class IndexedText:
    """Append-only tokens, and the position of each short run's last occurrence."""

    __slots__ = ("_after", "_learned", "tokens")

    def __init__(self, tokens: Iterable[int] = ()) -> None:
        self.tokens = array("i", tokens)
        self._after: dict[int, int] = {}
        self._learned = 0
        self._learn()

    @property
    def size_bytes(self) -> int:
        """Memory held, as counted by Python."""
        objects = len(self._after) + self._learned
        return sys.getsizeof(self.tokens) + sys.getsizeof(self._after) + objects * _OBJECT_BYTES

    def extend(self, tokens: Iterable[int]) -> None:
        """Append tokens."""
        self.tokens.extend(array("i", tokens))  # SGLang's arrays have another item type
        self._learn()

    def cut(self, length: int) -> None:
        """Keep the first `length` tokens only."""
        if length < len(self.tokens):
            self.tokens = self.tokens[:length]
            self._after.clear()
            self._learned = 0
            self._learn()

    def find(self, key: int, run: "array[int]") -> int | None:
        """Return the position after the newest `run` that is followed by a token; `key` is its hash."""
        end = self._after.get(key)
        return end if end is not None and self.tokens[end - len(run) : end] == run else None

    def _learn(self) -> None:
        """Index all runs that are followed by a token. The run at the end is not yet."""
        tokens, after, longest = self.tokens, self._after, LENGTHS[0]
        for end in range(max(self._learned, LENGTHS[-1]), len(tokens)):
            run = tuple(tokens[max(0, end - longest) : end])
            for length in LENGTHS:
                if length <= end:
                    after[_key(run[-length:])] = end
        self._learned = len(tokens)


def _key(run: tuple[int, ...]) -> int:
    return hash(run) & _KEY_BITS


@dataclass(slots=True)
class _Group:
    """Texts of one prompt."""

    prompt: IndexedText
    running: dict[str, IndexedText] = field(default_factory=dict)
    finished: deque[IndexedText] = field(default_factory=deque)
    """Newest first."""

    @property
    def size_bytes(self) -> int:
        texts = chain([self.prompt], self.running.values(), self.finished)
        return sum(text.size_bytes for text in texts)

    def sources(self, request: str) -> list[IndexedText]:
        """Return texts in order of preference: the request's own, the prompt, its siblings', finished ones."""
        siblings = (text for name, text in self.running.items() if name != request)
        return [self.running[request], self.prompt, *siblings, *self.finished]


@dataclass(slots=True)
class _Request:
    prompt: bytes
    """Key of the request's group."""
    head: int
    """Number of the prompt's last tokens that its text starts with."""
    count: int = 0
    """Number of response tokens added so far. The text may have lost the first ones."""


class NgramIndex:
    """
    Texts of running and finished requests, and drafts from them.

    A request begins with its prompt, grows, and finishes. If its end is never reported, its text stays until its group
    is evicted.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._groups: dict[bytes, _Group] = {}
        """Least recently used first."""
        self._requests: dict[str, _Request] = {}
        self.size_bytes = 0

    def length(self, request: str) -> int | None:
        """Return the number of a request's response tokens in the index; None if it has not begun."""
        known = self._requests.get(request)
        return None if known is None else known.count

    def begin(self, request: str, prompt: Sequence[int], cache_key: str = "") -> None:
        """
        Add a request, whose drafts come from requests with the same cache key.

        A request that is present starts over.
        """
        self.forget(request)
        key = blake2b(array("i", prompt).tobytes(), digest_size=16, key=cache_key.encode()).digest()
        if len(self._requests) >= MAX_REQUESTS:
            self.forget(next(iter(self._requests)))
        group = self._use(key)
        if not group.prompt.tokens:
            self._grow(group.prompt, prompt)
        head = prompt[-LENGTHS[0] :]
        self._requests[request] = _Request(key, len(head))
        text = group.running[request] = IndexedText(head)
        self.size_bytes += text.size_bytes
        self._shrink()

    def extend(self, request: str, tokens: Sequence[int]) -> None:
        """Append tokens to the response of a request that has begun."""
        known = self._requests[request]
        known.count += len(tokens)
        self._grow(self._text(request, known), tokens)
        self._shrink()

    def draft(self, request: str, steps: int) -> list[int]:
        """
        Return at most `steps` tokens that may follow the last tokens of a request that has begun.

        The longest matching run wins; among equal lengths the request's own text, then its siblings', then finished
        responses, newest first. Where a text ends, the search continues from there.
        """
        known = self._requests[request]
        own = self._text(request, known)
        sources = self._groups[known.prompt].sources(request)
        tail, drafts = own.tokens[-LENGTHS[0] :], array("i")
        while len(drafts) < steps and (found := _longest(sources, tail)) is not None:
            text, place = found
            piece = text.tokens[place : place + steps - len(drafts)]
            drafts += piece
            tail = (tail + piece)[-LENGTHS[0] :]
        return drafts.tolist()

    def finish(self, request: str, length: int) -> None:
        """Keep the first `length` tokens of a response for later requests with the same prompt."""
        if (known := self._requests.pop(request, None)) is None:
            return
        group = self._use(known.prompt)
        if (text := group.running.pop(request, None)) is None:
            return
        self.size_bytes -= text.size_bytes
        text.cut(len(text.tokens) - max(0, known.count - length))
        if len(text.tokens) > known.head:
            group.finished.appendleft(text)
            self.size_bytes += text.size_bytes
        if len(group.finished) > KEPT_RESPONSES:
            self.size_bytes -= group.finished.pop().size_bytes

    def forget(self, request: str) -> None:
        """Drop a request and its text."""
        if (known := self._requests.pop(request, None)) is not None and (group := self._groups.get(known.prompt)):
            text = group.running.pop(request, None)
            self.size_bytes -= text.size_bytes if text is not None else 0

    def _use(self, key: bytes) -> _Group:
        """Return a group and mark it as most recently used."""
        if (group := self._groups.pop(key, None)) is None:
            group = _Group(IndexedText())
            self.size_bytes += group.size_bytes
        self._groups[key] = group
        return group

    def _text(self, request: str, known: _Request) -> IndexedText:
        """Return a request's text, or an empty one if its group was evicted."""
        group = self._use(known.prompt)
        if (text := group.running.get(request)) is None:
            text = group.running[request] = IndexedText()
            self.size_bytes += text.size_bytes
            known.head = 0
        return text

    def _grow(self, text: IndexedText, tokens: Iterable[int]) -> None:
        self.size_bytes -= text.size_bytes
        text.extend(tokens)
        self.size_bytes += text.size_bytes

    def _shrink(self) -> None:
        while self.size_bytes > self._limit_bytes and self._groups:
            key = next(iter(self._groups))
            self.size_bytes -= self._groups.pop(key).size_bytes


def _longest(sources: Sequence[IndexedText], tail: "array[int]") -> tuple[IndexedText, int] | None:
    """Find the longest run at the end of `tail` that occurs in a source; earlier sources are preferred."""
    for length in LENGTHS:
        if length > len(tail):
            continue
        run = tail[-length:]
        key = _key(tuple(run))
        for text in sources:
            if (end := text.find(key, run)) is not None:
                return text, end
    return None
