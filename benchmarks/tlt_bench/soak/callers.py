"""Callers that finish, abort, time out and hang up at random, single responses and all of a prompt."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count

import aiohttp

from tlt_bench.gateway import servers
from tlt_common.client import Client, SamplingParams
from tlt_common.domain.response import FinishReason, TokenChunk
from tlt_common.errors import TltError

BATCH = 64
"""Prompts of a batch."""
GROUP = 4
"""Responses to a prompt."""
MOST_S = 0.1
"""Seconds after which a caller has changed its mind; a paced response takes as long."""
PACED_TOKENS = 6
WEIGHTS = {"batch": 6, "abort": 3, "abort_all": 2, "time_out": 3, "hang_up": 3, "break_batch": 2, "http": 3}
"""How often callers do what."""


class Callers:
    """
    Load on one gateway.

    Args:
        client: A client of the gateway.
        http: URL of its endpoint over HTTP.
        session: Connections for that.
        seed: Of what callers do.

    Attributes:
        over: Responses that are over, by how.
    """

    def __init__(self, client: Client, http: str, session: aiohttp.ClientSession, *, seed: int) -> None:
        self._client = client
        self._http = http
        self._session = session
        self._chance = random.Random(seed)
        self._names = count(seed << 40)
        self.over: Counter[str] = Counter()

    @property
    def responses(self) -> int:
        """Number of responses that are over."""
        return self.over.total()

    async def one(self) -> None:
        """Do one thing."""
        act: dict[str, Callable[[], Awaitable[None]]] = {
            "batch": self._batch,
            "abort": self._abort,
            "abort_all": self._abort_all,
            "time_out": self._time_out,
            "hang_up": self._hang_up,
            "break_batch": self._break_batch,
            "http": self._over_http,
        }
        (chosen,) = self._chance.choices(list(WEIGHTS), list(WEIGHTS.values()))
        await act[chosen]()

    async def fill(self) -> None:
        """Answer many prompts, so that what is remembered of prompts is full soon."""
        await self._batch(8 * BATCH)

    async def _batch(self, prompts: int = BATCH) -> None:
        ends = SamplingParams(max_new_tokens=self._chance.randint(1, 64), seed=servers.ENDS)
        answers = await self._client.batch([self._prompt() for _ in range(prompts)], 1, ends)
        for each in answers:
            for response in each:
                self._note(response)

    async def _abort(self) -> None:
        names, answers = self._group()
        await asyncio.sleep(self._later_s())
        await self._client.abort(self._chance.choice(names))
        await self._all(answers)

    async def _abort_all(self) -> None:
        names, answers = self._group()
        await asyncio.sleep(self._later_s())
        await self._client.abort(*names)
        await self._all(answers)

    async def _time_out(self) -> None:
        _, answers = self._group(timeout_s=max(0.005, self._later_s()))
        await self._all(answers)

    async def _hang_up(self) -> None:
        _, answers = self._group()
        await asyncio.sleep(self._later_s())
        for answer in answers[: self._chance.randint(1, GROUP)]:
            answer.cancel()
        await self._all(answers)

    async def _break_batch(self) -> None:
        batch = asyncio.ensure_future(self._client.batch([self._prompt()], GROUP, self._paced()))
        await asyncio.sleep(self._later_s())
        batch.cancel()
        with suppress(asyncio.CancelledError, TltError):
            await batch
        self.over["hung_up"] += GROUP

    async def _over_http(self) -> None:
        body = {
            "input_ids": self._prompt(),
            "sampling_params": {
                "n": GROUP,
                "max_new_tokens": PACED_TOKENS,
                "sampling_seed": servers.PACED if self._chance.random() < 0.5 else servers.ENDS,
            },
        }
        timeout = aiohttp.ClientTimeout(total=self._later_s() + 0.02)
        try:
            async with self._session.post(f"{self._http}/generate", json=body, timeout=timeout) as answer:
                await answer.read()
        except (TimeoutError, aiohttp.ClientError):
            self.over["hung_up"] += GROUP
        else:
            self.over["finished"] += GROUP

    def _group(self, **options: float) -> tuple[list[str], list["asyncio.Future[TokenChunk]"]]:
        """Ask for all responses to a prompt, one call each; return their ids and what comes of them."""
        prompt, paced = self._prompt(), self._paced()
        names = [f"soak-{next(self._names)}" for _ in range(GROUP)]
        return names, [
            asyncio.ensure_future(self._client.generate(prompt, paced, request_id=name, **options)) for name in names
        ]

    async def _all(self, answers: list["asyncio.Future[TokenChunk]"]) -> None:
        for found in await asyncio.gather(*answers, return_exceptions=True):
            if isinstance(found, TokenChunk):
                self._note(found)
            else:
                self.over["hung_up" if isinstance(found, asyncio.CancelledError) else "timed_out"] += 1
                if not isinstance(found, asyncio.CancelledError | TltError):
                    raise found

    def _note(self, response: TokenChunk) -> None:
        self.over["aborted" if response.finish_reason is FinishReason.ABORT else "finished"] += 1

    def _paced(self) -> SamplingParams:
        return SamplingParams(max_new_tokens=PACED_TOKENS, seed=servers.PACED)

    def _prompt(self) -> list[int]:
        """Return a prompt that nobody has sent before."""
        number = next(self._names)
        return [number >> shift & 511 for shift in (0, 9, 18, 27)] + [1] * 4

    def _later_s(self) -> float:
        return self._chance.uniform(0.0, MOST_S)
