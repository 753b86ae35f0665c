"""
Drafts by retrieval: what followed the last tokens before, in the same response or in another to the same prompt.

Responses to one prompt repeat each other and themselves, so that such drafts are often right, and they cost no pass
of any model. Every text remembers, for a few lengths, where each run of so many tokens occurred last: a new token
costs one dictionary entry per length, and a look-up one access per length and text. Texts are grouped by prompt.
Memory is bounded in bytes; what was not used for longest leaves first. Pure: the same calls give the same drafts.

Own code, since SGLang's `NgramCorpus` has one trie for all prompts, forgets by capacity alone and is compiled at first
use.
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
Lengths of the runs that are looked up, longest first.

On the demo's task (groups of 8, temperature 1, up to 1536 tokens, up to 5 drafts) the accept length is 3.5 in the
first epoch and 4.7 in the second. Longer runs and more lengths add nothing to that, and single tokens 2 %.
"""

KEPT_RESPONSES = 16
"""Finished responses kept per prompt, the newest: this epoch's siblings and the epoch's before."""

MOST_REQUESTS = 4096
"""Running requests known at once. Some end unseen; beyond this the oldest is forgotten."""

_KEY_BITS = 2**30 - 1
"""Keys are hashes cut to what Python keeps in 32 bytes. Two runs of one key are told apart by their tokens."""
_OBJECT_BYTES = 32


class Text:
    """Tokens that only grow, and where each short run among them occurred last."""

    __slots__ = ("_after", "_learned", "tokens")

    def __init__(self, tokens: Iterable[int] = ()) -> None:
        self.tokens = array("i", tokens)
        self._after: dict[int, int] = {}
        self._learned = 0
        self._learn()

    @property
    def size_bytes(self) -> int:
        """Memory held, as Python counts it."""
        objects = len(self._after) + self._learned
        return sys.getsizeof(self.tokens) + sys.getsizeof(self._after) + objects * _OBJECT_BYTES

    def extend(self, tokens: Iterable[int]) -> None:
        """Append tokens."""
        self.tokens.extend(array("i", tokens))  # SGLang's arrays are of another kind
        self._learn()

    def cut(self, length: int) -> None:
        """Drop all but the first `length` tokens."""
        if length < len(self.tokens):
            self.tokens = self.tokens[:length]
            self._after.clear()
            self._learned = 0
            self._learn()

    def find(self, key: int, run: "array[int]") -> int | None:
        """Return the position after the newest `run` that something follows; `key` is its hash."""
        end = self._after.get(key)
        return end if end is not None and self.tokens[end - len(run) : end] == run else None

    def _learn(self) -> None:
        """Note all runs that are followed by a token; the one at the very end is not yet."""
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
    """What belongs to one prompt."""

    prompt: Text
    running: dict[str, Text] = field(default_factory=dict)
    finished: deque[Text] = field(default_factory=deque)
    """Newest first."""

    @property
    def size_bytes(self) -> int:
        texts = chain([self.prompt], self.running.values(), self.finished)
        return sum(text.size_bytes for text in texts)

    def sources(self, request: str) -> list[Text]:
        """Return texts in order of preference: the request's own, its siblings', those finished before."""
        siblings = (text for name, text in self.running.items() if name != request)
        return [self.running[request], self.prompt, *siblings, *self.finished]


@dataclass(slots=True)
class _Request:
    prompt: bytes
    """Key of its group."""
    head: int
    """Tokens of its text that are the prompt's last."""
    count: int = 0
    """Tokens of its response told so far; the text may have lost the first of them."""


class NgramIndex:
    """
    Texts of running and finished requests, and drafts from them.

    A request begins with its prompt, grows, and finishes; or it is never heard of again, which costs memory until its
    group is the one used longest ago.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._groups: dict[bytes, _Group] = {}
        """Used longest ago first."""
        self._requests: dict[str, _Request] = {}
        self.size_bytes = 0

    def length(self, request: str) -> int | None:
        """Return how many tokens of its response are known; None: it has not begun."""
        known = self._requests.get(request)
        return None if known is None else known.count

    def begin(self, request: str, prompt: Sequence[int]) -> None:
        """Meet a request. One that was known begins anew."""
        self.forget(request)
        key = blake2b(array("i", prompt).tobytes(), digest_size=16).digest()
        if len(self._requests) >= MOST_REQUESTS:
            self.forget(next(iter(self._requests)))
        group = self._use(key)
        if not group.prompt.tokens:
            self._grow(group.prompt, prompt)
        head = prompt[-LENGTHS[0] :]
        self._requests[request] = _Request(key, len(head))
        text = group.running[request] = Text(head)
        self.size_bytes += text.size_bytes
        self._shrink()

    def extend(self, request: str, tokens: Sequence[int]) -> None:
        """Append to the response of a request that has begun."""
        known = self._requests[request]
        known.count += len(tokens)
        self._grow(self._text(request, known), tokens)
        self._shrink()

    def draft(self, request: str, steps: int) -> list[int]:
        """
        Return up to `steps` tokens that may follow what a request that has begun said last.

        The longest run found decides, and among equals the request's own text, then its siblings', then those that
        finished before, newest first. Where a text ends, the search goes on from there.
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
        """Keep the first `length` tokens of a response for those who ask the same prompt later."""
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
        """Return a group, now the one used last."""
        if (group := self._groups.pop(key, None)) is None:
            group = _Group(Text())
            self.size_bytes += group.size_bytes
        self._groups[key] = group
        return group

    def _text(self, request: str, known: _Request) -> Text:
        """Return a request's text; one whose group had to leave goes on with an empty one."""
        group = self._use(known.prompt)
        if (text := group.running.get(request)) is None:
            text = group.running[request] = Text()
            self.size_bytes += text.size_bytes
            known.head = 0
        return text

    def _grow(self, text: Text, tokens: Iterable[int]) -> None:
        self.size_bytes -= text.size_bytes
        text.extend(tokens)
        self.size_bytes += text.size_bytes

    def _shrink(self) -> None:
        while self.size_bytes > self._limit_bytes and self._groups:
            key = next(iter(self._groups))
            self.size_bytes -= self._groups.pop(key).size_bytes


def _longest(sources: Sequence[Text], tail: "array[int]") -> tuple[Text, int] | None:
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
