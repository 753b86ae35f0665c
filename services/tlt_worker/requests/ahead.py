"""
Generates responses to announced prompts ahead of time while the device is lent, and discards them. Responses of an
earlier run are computed in the same way (`startup`).

Their states are training data for exactly the upcoming prompts, and n-gram arms draft from their text. Nobody receives
them: they are not samples, however the policy changes.

They run under a lease only, so the ledger counts their time as training, and end with it: a request or new weights end
the lease before they reach the engine and wait only for the round in progress, which is kept short.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Never
from uuid import uuid4

from tlt_common.aio import Blocks
from tlt_common.domain.fleet import WorkerState
from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_common.domain.prompt import Prompt
from tlt_common.errors import TltError
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger
from tlt_worker.activity import Activity, Tenancy
from tlt_worker.engine.base import Engine
from tlt_worker.requests.ahead_pace import AheadPace

log = get_logger(__name__)

_LENT = {Tenancy.TRAINING, Tenancy.WAITING}

OWNER_TOKENS = 2**20
"""Tokens of prompts that are kept of an announcement, about 40 MiB: of further prompts, nothing is generated ahead."""
MAX_TOKENS = 2**21
"""Maximum tokens of all announcements. Beyond it, the oldest are forgotten."""


@dataclass(slots=True)
class _Announced:
    """Announced prompts of one owner."""

    prompts: deque[tuple[Prompt, int]] = field(default_factory=deque)
    """Prompts with the number of responses still to generate."""
    tokens: int = 0
    """Total tokens of the prompts; never decreases."""

    def add(self, prompt: Prompt, samples: int) -> None:
        self.prompts.append((prompt, samples))
        self.tokens += _tokens(prompt)

    def next(self) -> Prompt:
        """Return the prompt of the next response. There must be one."""
        prompt, left = self.prompts.popleft()
        if left > 1:
            self.prompts.appendleft((prompt, left - 1))
        return prompt


class Ahead:
    """
    The announced prompts of one worker.

    Args:
        places: Maximum number of requests that the engine decodes at a time.
        policy_version: Returns the served version. Announcements made under another version are dropped.
    """

    def __init__(
        self, engine: Engine, activity: Activity, *, places: int, policy_version: Callable[[], PolicyVersion]
    ) -> None:
        self._engine = engine
        self._activity = activity
        self._places = places
        self._pace = AheadPace(places)
        self._underway: dict[RequestId, Prompt] = {}
        """Prompts whose responses are running, which start again if they are cut short."""
        self._policy_version = policy_version
        self._announced: dict[str, _Announced] = {}
        self._limited: set[str] = set()
        """Owners whose announcements count towards `MAX_TOKENS`."""
        self._version = PolicyVersion(0)
        self._due = asyncio.Event()
        self._running = Blocks()
        activity.on_transition(self._note)

    @property
    def waiting(self) -> int:
        """Number of responses still to generate."""
        return sum(left for announced in self._announced.values() for _, left in announced.prompts)

    def announce(self, owner: str, prompts: Iterable[Prompt], samples: int = 1, *, limited: bool = True) -> None:
        """
        Replace the owner's announced prompts, each with a number of responses to generate.

        If `limited`, only the first prompts with at most `OWNER_TOKENS` tokens together are kept.
        """
        if self._version != self._policy_version():
            self._announced.clear()
            self._version = self._policy_version()
        self._announced.pop(owner, None)
        self._underway = {name: prompt for name, prompt in self._underway.items() if prompt.owner != owner}
        wanted = _Announced()
        for prompt in prompts:
            if limited and wanted.tokens + _tokens(prompt) > OWNER_TOKENS:
                log.info("announcement_cut", owner=owner, kept_prompts=len(wanted.prompts), max_tokens=OWNER_TOKENS)
                break
            wanted.add(replace(prompt, owner=owner), samples)
        (self._limited.add if limited else self._limited.discard)(owner)
        if wanted.prompts:
            self._announced[owner] = wanted
        while sum(each.tokens for name, each in self._announced.items() if name in self._limited) > MAX_TOKENS:
            del self._announced[next(name for name in self._announced if name in self._limited)]
        self._due.set()

    async def run(self) -> Never:
        """Generate responses whenever the device is lent, until cancelled."""
        while True:
            await self._due.wait()
            self._due.clear()
            if not self._may_run:
                continue
            self._pace = AheadPace(self._places)
            with suppress(TimeoutError):
                async with self._running.until_ended(), asyncio.TaskGroup() as parts:
                    self._begin(parts)
            self._begin_again_later()

    @property
    def _may_run(self) -> bool:
        return not self._activity.busy and self._activity.tenancy in _LENT

    def _note(self, _previous: WorkerState, _current: WorkerState) -> None:
        if self._may_run:
            self._due.set()
        else:
            self._running.end()

    def _begin(self, parts: asyncio.TaskGroup) -> None:
        """Start as many responses as the pace allows."""
        while self._may_run and self._pace.free_slots > 0 and (prompt := self._next()) is not None:
            self._underway[prompt.request_id] = prompt
            self._pace.begin(prompt.request_id)
            parts.create_task(self._answer(prompt, parts), name=prompt.request_id)

    async def _answer(self, prompt: Prompt, parts: asyncio.TaskGroup) -> None:
        """Generate one response and start the next ones."""
        loop = asyncio.get_running_loop()
        try:
            async for chunk in self._engine.generate(prompt):
                metrics.AHEAD_TOKENS.inc(len(chunk.token_ids))
                self._pace.note(prompt.request_id, loop.time())
                self._begin(parts)
        except TltError as error:  # the caller learns of it from its requests
            log.debug("ahead_failed", error=error.message)
        self._underway.pop(prompt.request_id, None)
        self._pace.end(prompt.request_id)
        self._begin(parts)

    def _next(self) -> Prompt | None:
        """Return the next prompt, taking owners in turn."""
        if self._version != self._policy_version():
            self._announced.clear()
        for owner in list(self._announced):
            wanted = self._announced.pop(owner)
            prompt = wanted.next()
            if wanted.prompts:
                self._announced[owner] = wanted  # behind the others
            return replace(prompt, request_id=_new_id())
        return None

    def _begin_again_later(self) -> None:
        """Keep the prompts of responses that were cut short."""
        if self._version == self._policy_version():
            for prompt in self._underway.values():
                self._announced.setdefault(prompt.owner, _Announced()).add(prompt, 1)
        self._underway.clear()


def _tokens(prompt: Prompt) -> int:
    return len(prompt.token_ids) + len(prompt.prefix_token_ids)


def _new_id() -> RequestId:
    return RequestId(f"ahead-{uuid4().hex}/0")
