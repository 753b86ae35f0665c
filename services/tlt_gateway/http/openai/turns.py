"""The tokens of conversations whose responses were sampled here, for their later turns. Pure."""

import json
from array import array
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import xxhash

from tlt_gateway.http.openai.conversation import ConversationBody, Message, arguments_of

MAX_TOKENS = 2**24
"""Tokens that are remembered, at 4 bytes each; those of the longest unused conversations are forgotten first."""
MAX_TURNS = 2**17
"""Turns that are remembered, at about 0.4 KiB each besides their tokens."""


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
    """Whether the last token ended the response, and was not one of it that was cut off."""


class Turns:
    """
    Args:
        most: Tokens to remember.
        most_turns: Turns to remember.
    """

    def __init__(self, *, most: int = MAX_TOKENS, most_turns: int = MAX_TURNS) -> None:
        self._most = most
        self._most_turns = most_turns
        self._tokens = 0
        self._known: OrderedDict[TurnKey, Turn] = OrderedDict()
        self._sessions: dict[tuple[str, str], set[TurnKey]] = {}

    @property
    def tokens(self) -> int:
        """Number of tokens remembered."""
        return self._tokens

    def get(self, key: TurnKey) -> Turn | None:
        """Return a conversation up to the end of a response."""
        found = self._known.get(key)
        if found is not None:
            self._known.move_to_end(key)
        return found

    def add(self, key: TurnKey, turn: Turn) -> None:
        """Remember a conversation up to the end of a response."""
        self._forget(key)
        self._known[key] = replace(turn, token_ids=array("i", turn.token_ids))
        self._sessions.setdefault((key.owner, key.session), set()).add(key)
        self._tokens += len(turn.token_ids)
        while self._tokens > self._most or len(self._known) > self._most_turns:
            self._forget(next(iter(self._known)))

    def finish(self, owner: str, session: str) -> int:
        """Forget a session; return the number of its turns."""
        found = list(self._sessions.get((owner, session), ()))
        for key in found:
            self._forget(key)
        return len(found)

    def _forget(self, key: TurnKey) -> None:
        if (old := self._known.pop(key, None)) is None:
            return
        self._tokens -= len(old.token_ids)
        keys = self._sessions[key.owner, key.session]
        keys.remove(key)
        if not keys:
            del self._sessions[key.owner, key.session]


def keys_of(body: ConversationBody, messages: Sequence[Message], *, owner: str, session: str) -> Iterator[TurnKey]:
    """Yield a key for each of the messages: of the conversation up to its end, with its tools and its template."""
    digest = xxhash.xxh3_128()
    digest.update(_bytes([body.tools, body.documents, body.chat_template, body.chat_template_kwargs]))
    for message in messages:
        digest.update(_bytes(_content(message)))
        yield TurnKey(owner=owner, session=session, digest=digest.digest())


def _bytes(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode() + b"\n"


def _content(message: Message) -> list[object]:
    """Return what identifies a message, whichever optional fields a client sends back."""
    calls = [[call.id, call.function.name, arguments_of(call.function.arguments)] for call in message.tool_calls or ()]
    return [message.role, message.text.strip(), message.name, message.tool_call_id, calls]
