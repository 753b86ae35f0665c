"""Remembers the tokens of conversations whose responses were sampled here, for their later turns. Pure."""

import json
from array import array
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import xxhash

from tlt_gateway.http.openai.conversation import ConversationBody, Message, arguments_of

MAX_BYTES = 2**27
"""Bytes that are remembered by default: 1,024 conversations of 32,000 tokens."""
TOKEN_BYTES = 4
TURN_BYTES = 512
"""Of a turn besides its tokens: 440 by tracemalloc, over 100,000 turns of 10,000 sessions."""
MAX_FORGOTTEN = 2**16
"""Conversations of which it is known that they were forgotten, the latest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnKey:
    """Identifies a conversation up to the end of a message."""

    owner: str
    session: str
    digest: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A conversation up to the end of a response."""

    token_ids: Sequence[int]
    ended: bool
    """Whether the last token ended the response; false for a response that was cut off."""


@dataclass(slots=True, kw_only=True, eq=False)
class _Kept:
    """A turn stored as the difference from the turn before it, so that a conversation's tokens are stored once."""

    key: TurnKey
    before: "_Kept | None"
    shared: int
    """Number of leading tokens that it shares with the turn before it."""
    rest: "array[int]"
    ended: bool
    is_followed: bool = False
    """Whether a later turn builds on it."""

    @property
    def bytes(self) -> int:
        return TURN_BYTES + TOKEN_BYTES * len(self.rest)

    def line(self) -> Iterator["_Kept"]:
        """Yield the turn and the turns before it."""
        turn: _Kept | None = self
        while turn is not None:
            yield turn
            turn = turn.before

    def token_ids(self) -> "array[int]":
        """Return all tokens of the conversation up to the end of the turn."""
        parts, end = list["array[int]"](), self.shared + len(self.rest)
        for turn in self.line():
            parts.append(turn.rest[: max(0, end - turn.shared)])
            end = min(end, turn.shared)
        whole = array("i")
        for part in reversed(parts):
            whole.extend(part)
        return whole


@dataclass(slots=True, kw_only=True, eq=False)
class _Conversation:
    """The turns of a session; without a session, those that build on the same response."""

    name: Hashable
    turns: dict[TurnKey, _Kept] = field(default_factory=dict)
    newest: _Kept | None = None
    bytes: int = 0

    def put(self, turn: _Kept) -> None:
        self.turns[turn.key] = self.newest = turn
        self.bytes += turn.bytes

    def take(self, key: TurnKey) -> None:
        if not (old := self.turns.pop(key)).is_followed:  # otherwise later turns still hold its tokens
            self.bytes -= old.bytes

    def keep_newest(self) -> None:
        """Forget turns that the newest one does not build on."""
        line = list(self.newest.line()) if self.newest is not None else []
        self.turns = {turn.key: turn for turn in reversed(line) if self.turns.get(turn.key) is turn}
        self.bytes = sum(turn.bytes for turn in line)


_Conversations: TypeAlias = OrderedDict[Hashable, _Conversation]


class Turns:
    """
    Remembers whole conversations and forgets the least recently used.

    When there is no room, it forgets the least recently used conversation of the owner that holds the most, so that no
    caller displaces others within an equal share.

    Args:
        max_bytes: Bytes to remember.

    Attributes:
        bytes: Bytes remembered.
        forgotten: Conversations forgotten so far to make room.
    """

    def __init__(self, *, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._owners: dict[str, _Conversations] = {}
        """Longest unused first."""
        self._owner_bytes: dict[str, int] = {}
        self._known: dict[TurnKey, _Conversation] = {}
        self._lost: OrderedDict[int, None] = OrderedDict()
        """Hashes of the newest turns of forgotten conversations."""
        self.bytes = 0
        self.forgotten = 0

    def get(self, key: TurnKey) -> Turn | None:
        """Return a conversation up to the end of a response."""
        conversation = self._known.get(key)
        if conversation is None:
            return None
        self._owners[key.owner].move_to_end(conversation.name)
        kept = conversation.turns[key]
        return Turn(token_ids=kept.token_ids(), ended=kept.ended)

    def is_forgotten(self, key: TurnKey) -> bool:
        """Whether a conversation was forgotten to make room, as far as that is still remembered."""
        return hash(key) in self._lost

    def add(self, key: TurnKey, turn: Turn, *, before: Sequence[TurnKey] = ()) -> None:
        """Remember a conversation up to the end of a response. `before` holds the preceding messages in order."""
        self._take(key)
        conversation, last = self._before(before)
        if conversation is None or last is None:
            name = (key.owner, key.session) if key.session else key
            conversation, last = self._conversation(key.owner, name), None
        kept = _differing(key, turn, last)
        self._owners[key.owner].move_to_end(conversation.name)
        had = conversation.bytes
        conversation.put(kept)
        self._known[key] = conversation
        self._count(key.owner, conversation.bytes - had)
        self._lost.pop(hash(key), None)
        self._make_room(conversation)

    def finish(self, owner: str, session: str) -> int:
        """Forget a session; return the number of its turns."""
        conversation = self._owners.get(owner, _Conversations()).get((owner, session))
        if not session or conversation is None:
            return 0
        self._forget(owner, conversation)
        return len(conversation.turns)

    def _before(self, keys: Sequence[TurnKey]) -> tuple[_Conversation | None, _Kept | None]:
        """Return the last of these turns that is known, with its conversation."""
        for key in reversed(keys):
            if (found := self._known.get(key)) is not None:
                return found, found.turns[key]
        return None, None

    def _take(self, key: TurnKey) -> None:
        """Remove a turn before it is added again; it may have lost the turns before it."""
        if (conversation := self._known.pop(key, None)) is None:
            return
        had = conversation.bytes
        conversation.take(key)
        self._count(key.owner, conversation.bytes - had)
        if not conversation.turns:
            self._forget(key.owner, conversation)

    def _conversation(self, owner: str, name: Hashable) -> _Conversation:
        return self._owners.setdefault(owner, _Conversations()).setdefault(name, _Conversation(name=name))

    def _make_room(self, added: _Conversation) -> None:
        while self.bytes > self._max_bytes:
            owner = max(self._owner_bytes, key=self._owner_bytes.__getitem__)
            oldest = next(iter(self._owners[owner].values()))
            if oldest is added and len(oldest.turns) > 1 and self._keeps_newest(owner, oldest):
                continue
            self._forget(owner, oldest)
            self.forgotten += 1
            if oldest.newest is not None:
                self._lost[hash(oldest.newest.key)] = None
            while len(self._lost) > MAX_FORGOTTEN:
                self._lost.popitem(last=False)

    def _keeps_newest(self, owner: str, conversation: _Conversation) -> bool:
        """Forget the turns that a conversation's newest turn does not build on; return whether there were any."""
        had, turns = conversation.bytes, conversation.turns
        conversation.keep_newest()
        for key in turns.keys() - conversation.turns.keys():
            del self._known[key]
        self._count(owner, conversation.bytes - had)
        return conversation.bytes < had

    def _forget(self, owner: str, conversation: _Conversation) -> None:
        for key in conversation.turns:
            del self._known[key]
        del self._owners[owner][conversation.name]
        self._count(owner, -conversation.bytes)
        if not self._owners[owner]:
            del self._owners[owner], self._owner_bytes[owner]

    def _count(self, owner: str, more: int) -> None:
        self.bytes += more
        self._owner_bytes[owner] = self._owner_bytes.get(owner, 0) + more


def _differing(key: TurnKey, turn: Turn, before: _Kept | None) -> _Kept:
    """Return a turn as the difference from the one before it, if it starts with its tokens except an end token."""
    whole = array("i", turn.token_ids)
    if before is not None:
        begun = before.token_ids()
        for shared in (len(begun), len(begun) - 1)[: 1 + before.ended]:
            if shared <= len(whole) and whole[:shared] == begun[:shared]:
                before.is_followed = True
                return _Kept(key=key, before=before, shared=shared, rest=whole[shared:], ended=turn.ended)
    return _Kept(key=key, before=None, shared=0, rest=whole, ended=turn.ended)


def keys_of(body: ConversationBody, messages: Sequence[Message], *, owner: str, session: str) -> Iterator[TurnKey]:
    """Yield a key for each message, which identifies the conversation up to its end, with its tools and template."""
    digest = xxhash.xxh3_128()
    digest.update(_bytes([body.tools, body.documents, body.chat_template, body.chat_template_kwargs]))
    for message in messages:
        digest.update(_bytes(_content(message)))
        yield TurnKey(owner=owner, session=session, digest=digest.digest())


def _bytes(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode() + b"\n"


def _content(message: Message) -> list[object]:
    """Return the identity of a message, regardless of which optional fields a client sends back."""
    calls = [[call.id, call.function.name, arguments_of(call.function.arguments)] for call in message.tool_calls or ()]
    return [message.role, message.text.strip(), message.name, message.tool_call_id, calls]
