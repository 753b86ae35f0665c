"""A conversation with a tool that answers immediately, and the cached tokens of its turns."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass

from tlt_common.client import Client, SamplingParams

FIRST_TOKEN = 3
"""Tokens below are special."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Lengths of conversations, in tokens."""

    turns: int = 6
    prompt: int = 2500
    """Tokens of the first turn: task, examples, descriptions of tools."""
    response: tuple[int, int] = (4, 16)
    """Minimum and maximum, so that turns end in a different order each time."""
    answer: int = 48
    """Tokens that the tool adds after each turn."""

    @property
    def longest(self) -> int:
        """Tokens at the end of the last turn."""
        return self.prompt + self.turns * (self.response[1] + self.answer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefills:
    """Prompt tokens of a conversation."""

    prompt_tokens: int = 0
    earlier_tokens: int = 0
    """Tokens computed in earlier turns, which a perfect cache would have."""
    refilled_tokens: int = 0
    """Number of those tokens that were prefilled again."""

    def __add__(self, other: "Prefills") -> "Prefills":
        """Return the sums."""
        return Prefills(
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            earlier_tokens=self.earlier_tokens + other.earlier_tokens,
            refilled_tokens=self.refilled_tokens + other.refilled_tokens,
        )


class Talk:
    """
    One conversation.

    Args:
        shape: Its lengths.
        seed: Determines its tokens and lengths.
        vocabulary: Number of tokens of the model.
        session: Its session; may be empty.
    """

    def __init__(self, shape: Shape, *, seed: int, vocabulary: int, session: str) -> None:
        self.found = Prefills()
        self._shape = shape
        self._seed = seed
        self._draw = random.Random(seed)
        self._vocabulary = vocabulary
        self._session = session
        self._ids = self._tokens(shape.prompt)
        self._known = 0

    async def turn(self, client: Client) -> None:
        """Generate the next response and add the tool's answer."""
        ids = self._ids
        sampling = SamplingParams(
            max_new_tokens=self._draw.randint(*self._shape.response), ignore_eos=True, seed=self._seed + len(ids)
        )
        answer = await client.generate(ids, sampling, session_id=self._session)
        assert answer.stats is not None, "a complete response has stats"  # noqa: S101
        self.found += Prefills(
            prompt_tokens=len(ids),
            earlier_tokens=self._known,
            refilled_tokens=max(0, self._known - answer.stats.cached_tokens),
        )
        ids += answer.token_ids
        self._known = len(ids) - 1  # the last sampled token was not computed
        ids += self._tokens(self._shape.answer)

    def _tokens(self, count: int) -> list[int]:
        return [self._draw.randrange(FIRST_TOKEN, self._vocabulary) for _ in range(count)]


async def together(client: Client, talks: Sequence[Talk], *, turns: int) -> None:
    """Run turns of all conversations. Each is sent for all together, in the order in which the previous turns ended."""
    order = list(talks)
    for _ in range(turns):
        ended: list[Talk] = []

        async def turn(one: Talk, ended: list[Talk] = ended) -> None:
            await one.turn(client)
            ended.append(one)

        await asyncio.gather(*map(turn, order))
        order = ended
