"""Callers that wait, abort, time out and disconnect at random, for single responses and whole groups."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
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
SHARES = {
    "finish": 0.25,
    "abort": 0.12,
    "abort_whole": 0.15,
    "time_out": 0.15,
    "disconnect": 0.15,
    "break_batch": 0.08,
    "http": 0.1,
}
"""Share of the callers that do so: they wait, abort one response, abort all responses to a prompt, have a deadline that
is too short, disconnect in the middle of single responses or of a batch, or ask over HTTP and mostly disconnect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """All responses to a prompt, one call each."""

    prompt: list[int]
    names: list[str]
    answers: Sequence["asyncio.Future[TokenChunk]"]


class Callers:
    """
    Load on one gateway.

    Args:
        client: A client of the gateway.
        http: URL of its endpoint over HTTP.
        session: HTTP connections.
        seed: Seed of the callers' actions.

    Attributes:
        over: Number of ended responses, by outcome.
        acts: Number of the callers' actions, by kind.
    """

    def __init__(self, client: Client, http: str, session: aiohttp.ClientSession, *, seed: int) -> None:
        self._client = client
        self._http = http
        self._session = session
        self._chance = random.Random(seed)
        self._names = count(seed << 40)
        self.over: Counter[str] = Counter()
        self.acts: Counter[str] = Counter()

    @property
    def responses(self) -> int:
        """Number of ended responses."""
        return self.over.total()

    async def one(self) -> None:
        """
        Perform one action.

        Raises:
            TltError: A response that no caller gave up is lost or wrong.
        """
        act: dict[str, Callable[[], Awaitable[None]]] = {
            "finish": self._finish,
            "abort": self._abort,
            "abort_whole": self._abort_whole,
            "time_out": self._time_out,
            "disconnect": self._disconnect,
            "break_batch": self._break_batch,
            "http": self._over_http,
        }
        (chosen,) = self._chance.choices(list(SHARES), list(SHARES.values()))
        self.acts[chosen] += 1
        await act[chosen]()

    async def fill(self) -> None:
        """Answer many prompts, so that memories of prompts fill up early."""
        await self._finish(8 * BATCH)

    async def _finish(self, count: int = BATCH) -> None:
        ends = SamplingParams(max_new_tokens=self._chance.randint(1, 64), seed=servers.ENDS)
        prompts = [self._prompt() for _ in range(count)]
        answers = await self._client.batch(prompts, 1, ends)
        for prompt, (response,) in zip(prompts, answers, strict=True):
            self._require_whole(response, prompt, ends)

    async def _abort(self) -> None:
        group = self._group()
        await self._later()
        doomed = self._chance.randrange(GROUP)
        await self._client.abort(group.names[doomed])
        await self._ended(group, given_up=[doomed])

    async def _abort_whole(self) -> None:
        """Abort all samples of a prompt: by their ids, or by the prompt's in a batch."""
        if self._chance.random() < 0.5:
            group = self._group()
            await self._later()
            await self._client.abort(*group.names)
            await self._ended(group, given_up=range(GROUP))
            return
        name = f"soak-{next(self._names)}"
        batch = asyncio.ensure_future(self._client.batch([self._prompt()], GROUP, self._paced(), request_ids=[name]))
        await self._later()
        await self._client.abort(name)
        for response in (await batch)[0]:
            self._note(response)

    async def _time_out(self) -> None:
        group = self._group(timeout_s=max(0.005, self._chance.uniform(0.0, MOST_S)))
        await self._ended(group, given_up=range(GROUP), expected=TltError)

    async def _disconnect(self) -> None:
        group = self._group()
        await self._later()
        gone = range(self._chance.randint(1, GROUP))
        for place in gone:
            group.answers[place].cancel()
        await self._ended(group, given_up=gone, expected=asyncio.CancelledError)

    async def _break_batch(self) -> None:
        batch = asyncio.ensure_future(self._client.batch([self._prompt()], GROUP, self._paced()))
        await self._later()
        batch.cancel()
        with suppress(asyncio.CancelledError):
            await batch
        self.over["disconnected"] += GROUP

    async def _over_http(self) -> None:
        prompt, seed = self._prompt(), self._chance.choice((servers.PACED, servers.ENDS))
        body = {
            "input_ids": prompt,
            "sampling_params": {"n": GROUP, "max_new_tokens": PACED_TOKENS, "sampling_seed": seed},
        }
        timeout = aiohttp.ClientTimeout(total=self._chance.uniform(0.0, MOST_S) + 0.02)
        try:
            async with self._session.post(f"{self._http}/generate", json=body, timeout=timeout) as answer:
                found = await answer.json()
        except TimeoutError:
            self.over["disconnected"] += GROUP
            return
        expected = list(servers.tokens(prompt, 0, PACED_TOKENS))
        if [one["output_ids"] for one in found] != [expected] * GROUP:
            raise TltError(f"over HTTP, the response to {prompt} is not {expected}: {found}")
        self.over["finished"] += GROUP

    def _group(self, **options: float) -> Group:
        prompt, paced = self._prompt(), self._paced()
        names = [f"soak-{next(self._names)}" for _ in range(GROUP)]
        answers = [
            asyncio.ensure_future(self._client.generate(prompt, paced, request_id=name, **options)) for name in names
        ]
        return Group(prompt=prompt, names=names, answers=answers)

    async def _ended(
        self, group: Group, *, given_up: Sequence[int], expected: type[BaseException] | None = None
    ) -> None:
        """Wait for all responses. Those given up may have ended in the expected way; the others must be complete."""
        for place, found in enumerate(await asyncio.gather(*group.answers, return_exceptions=True)):
            if place not in given_up:
                self._require_whole(found, group.prompt, self._paced())
            elif isinstance(found, TokenChunk):
                self._note(found)
            elif expected is not None and isinstance(found, expected):
                self.over["timed_out" if isinstance(found, TltError) else "disconnected"] += 1
            else:
                raise found

    def _require_whole(self, found: TokenChunk | BaseException, prompt: list[int], sampling: SamplingParams) -> None:
        """
        Raises:
            TltError: The response is lost or wrong.
        """
        if isinstance(found, BaseException):
            raise TltError(f"the response to {prompt} is lost, although nobody gave it up: {found!r}") from found
        expected = servers.tokens(prompt, 0, sampling.max_new_tokens or 1)
        if found.token_ids != expected or found.finish_reason is FinishReason.ABORT:
            raise TltError(f"the response to {prompt} is not {expected}: {found}")
        self._note(found)

    def _note(self, response: TokenChunk) -> None:
        self.over["aborted" if response.finish_reason is FinishReason.ABORT else "finished"] += 1

    def _paced(self) -> SamplingParams:
        return SamplingParams(max_new_tokens=PACED_TOKENS, seed=servers.PACED)

    def _prompt(self) -> list[int]:
        """Return a prompt that has not been sent before."""
        number = next(self._names)
        return [number >> shift & 511 for shift in (0, 9, 18, 27)] + [1] * 4

    async def _later(self) -> None:
        await asyncio.sleep(self._chance.uniform(0.0, MOST_S))
