"""The tokens of conversations whose responses were sampled here, for their later turns. Pure."""

import json
from array import array
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import xxhash

from tlt_gateway.http.openai.conversation import Conversation, Message, arguments_of

MAX_TOKENS = 2**24
"""Tokens that are remembered, at 4 bytes each; those of the longest unused conversations are forgotten first."""
MAX_TURNS = 2**17
"""Turns that are remembered, at about 0.4 KiB each besides their tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """Identifies a conversation up to the end of a message."""

    owner: str
    session: str
    digest: bytes


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
        self._known: OrderedDict[Key, array[int]] = OrderedDict()

    @property
    def tokens(self) -> int:
        """Number of tokens remembered."""
        return self._tokens

    def get(self, key: Key) -> list[int] | None:
        """Return the tokens of a conversation up to the end of a response."""
        found = self._known.get(key)
        if found is None:
            return None
        self._known.move_to_end(key)
        return found.tolist()

    def add(self, key: Key, token_ids: Sequence[int]) -> None:
        """Remember the tokens of a conversation up to the end of a response."""
        self._forget(key)
        self._known[key] = array("i", token_ids)
        self._tokens += len(token_ids)
        while self._tokens > self._most or len(self._known) > self._most_turns:
            self._forget(next(iter(self._known)))

    def finish(self, owner: str, session: str) -> int:
        """Forget a session; return the number of its turns."""
        found = [key for key in self._known if (key.owner, key.session) == (owner, session)]
        for key in found:
            self._forget(key)
        return len(found)

    def _forget(self, key: Key) -> None:
        if (old := self._known.pop(key, None)) is not None:
            self._tokens -= len(old)


def keys_of(body: Conversation, messages: Sequence[Message], *, owner: str, session: str) -> Iterator[Key]:
    """Yield a key for each of the messages: of the conversation up to its end, with its tools and its template."""
    digest = xxhash.xxh3_128()
    digest.update(_bytes([body.tools, body.chat_template, body.chat_template_kwargs]))
    for message in messages:
        digest.update(_bytes(_content(message)))
        yield Key(owner=owner, session=session, digest=digest.digest())


def _bytes(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode() + b"\n"


def _content(message: Message) -> list[object]:
    """Return what identifies a message, whichever optional fields a client sends back."""
    calls = [[call.id, call.function.name, arguments_of(call.function.arguments)] for call in message.tool_calls or ()]
    return [message.role, message.text.strip(), message.name, message.tool_call_id, calls]
