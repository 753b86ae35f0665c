"""The workers as this gateway sees them: who is there, who takes requests, who is lost."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import Never, TypeAlias

import grpc

from tlt_common.domain.fleet import Member, WorkerInfo
from tlt_common.domain.ids import PolicyVersion
from tlt_common.domain.rollout import Prompt
from tlt_common.errors import NotFoundError, TltError, UnavailableError
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger
from tlt_gateway.link import Link, LinkState
from tlt_gateway.remote import RemoteWorker
from tlt_gateway.routing import choose

log = get_logger(__name__)

Admit: TypeAlias = Callable[[Link], Awaitable[None]]

BEHIND_PROBES = 5
"""A worker that could not be brought forward is tried again after so many probe intervals: it means loading weights."""


class Fleet:
    """
    A link per worker, each looked at every `probe_s`; the seats of admission.

    A worker leaves only when it is neither listed nor answers: a coordinator that restarts knows nobody at first.
    """

    def __init__(
        self,
        connect: Callable[[str], grpc.aio.Channel],
        *,
        fixed: Iterable[str] = (),
        spill_load: float,
        probe_s: float,
        stage_s: float,
    ) -> None:
        self.version = PolicyVersion(0)
        """The policy version served. Set by `Weights` alone."""
        self._connect = connect
        self._fixed = frozenset(fixed)
        self._spill_load = spill_load
        self._probe_s = probe_s
        self._stage_s = stage_s
        self._links: dict[str, Link] = {}
        self._arrivals: asyncio.Queue[tuple[Link, grpc.aio.Channel]] = asyncio.Queue()
        self._model: WorkerInfo | None = None
        self._model_known = asyncio.Event()
        self._absent_since_s: float | None = asyncio.get_running_loop().time()
        self._on_room: Callable[[], None] = lambda: None

    @property
    def links(self) -> tuple[Link, ...]:
        """All workers, lost ones too."""
        return tuple(self._links.values())

    @property
    def absent_since_s(self) -> float | None:
        """Loop time since when no worker has been ready; None while one is."""
        return self._absent_since_s

    def when_room(self, callback: Callable[[], None]) -> None:
        """Call this whenever a worker became ready."""
        self._on_room = callback

    async def model(self, wait_s: float) -> WorkerInfo:
        """
        What the fleet serves, as its first worker said; waits for that one.

        Raises:
            UnavailableError: None came within `wait_s`.
        """
        if self._model is None:
            try:
                async with asyncio.timeout(wait_s):
                    await self._model_known.wait()
            except TimeoutError:
                raise UnavailableError(f"no worker has been there for {wait_s:g} s") from None
        assert self._model is not None  # noqa: S101 - set before the event
        return self._model

    async def run(self, admit: Admit) -> Never:
        """Live until cancelled. `admit` gets each worker that answers and is not ready, and makes it so, or not."""
        for address in self._fixed:
            self._add(address)
        async with asyncio.TaskGroup() as group:
            while True:
                link, channel = await self._arrivals.get()
                group.create_task(self._attend(link, channel, admit), name=f"worker {link.address}")

    def see(self, members: Sequence[Member]) -> None:
        """Take in the coordinator's view."""
        listed = {member.hello.address for member in members} | self._fixed
        for link in self.links:
            link.wanted = link.address in listed
        for member in members:
            (self._links.get(member.hello.address) or self._add(member.hello.address)).reported(member.status)
        self._on_room()

    def take(self, prompt: Prompt) -> Link | None:
        """
        Reserve room at the worker that is best; None while all are full.

        Raises:
            NotFoundError: It asks for a version that is not served.
        """
        if prompt.policy_version not in {None, self.version}:
            raise NotFoundError(
                f"prompt.policy_version is {prompt.policy_version}; accepted: {self.version}, which is served, or none",
                field="prompt.policy_version",
            )
        seats = {candidate: link for link in self.links if (candidate := link.candidate())}
        chosen = choose(seats, version=prompt.policy_version, spill_load=self._spill_load)
        if chosen is None:
            return None
        link = seats[chosen]
        link.assigned += 1
        return link

    def leave(self, link: Link) -> None:
        """Give room back."""
        link.assigned -= 1

    def ready(self, link: Link, info: WorkerInfo) -> None:
        """It serves the fleet's version, and takes requests from now on unless it is about to end."""
        link.info = info
        if info.draining:
            self._enter(link, LinkState.LEAVING)
            return
        if self._model is None:
            self._model = info
            self._model_known.set()
        self._enter(link, LinkState.READY)
        self._on_room()

    def behind(self, link: Link, info: WorkerInfo) -> None:
        """It answers, but must not take requests before it serves the fleet's version."""
        link.info = info
        self._enter(link, LinkState.BEHIND)

    def refused(self, link: Link) -> None:
        """It is about to end, and said so before it was asked how it is."""
        if link.info is not None and link.state is LinkState.READY:
            link.info = replace(link.info, draining=True)
            self._enter(link, LinkState.LEAVING)

    def lose(self, link: Link, why: str) -> None:
        """It takes no requests until it answers again."""
        self._enter(link, LinkState.LOST, why=why)

    def _add(self, address: str) -> Link:
        channel = self._connect(address)
        link = self._links[address] = Link(address, RemoteWorker(channel, stage_s=self._stage_s))
        self._arrivals.put_nowait((link, channel))
        return link

    async def _attend(self, link: Link, channel: grpc.aio.Channel, admit: Admit) -> None:
        async with channel:
            while link.wanted or link.answers:
                await self._look(link, admit)
                patience = BEHIND_PROBES if link.state is LinkState.BEHIND else 1
                await asyncio.sleep(self._probe_s * patience)
            del self._links[link.address]
            self._count()

    async def _look(self, link: Link, admit: Admit) -> None:
        try:
            info = await link.remote.info()
        except TltError as error:
            self.lose(link, error.message)
            return
        if self._model is not None and info.vocab_size != self._model.vocab_size:
            self.lose(link, f"serves {info.model} with {info.vocab_size} tokens, the fleet {self._model.vocab_size}")
        elif link.state is LinkState.READY and info.policy_version == self.version:
            self.ready(link, info)
        else:
            if info.policy_version < self.version:
                self.behind(link, info)  # it was restarted: no request may reach it meanwhile
            await admit(link)

    def _enter(self, link: Link, state: LinkState, *, why: str = "") -> None:
        if link.state is not state:
            event = log.info if state is LinkState.READY else log.warning
            event("worker_state", worker=link.name, address=link.address, previous=link.state, state=state, why=why)
        link.state = state
        self._count()
        if any(link.state is LinkState.READY for link in self.links):
            self._absent_since_s = None
        elif self._absent_since_s is None:
            self._absent_since_s = asyncio.get_running_loop().time()

    def _count(self) -> None:
        counts = Counter(link.state for link in self.links)
        for state in LinkState:
            metrics.GATEWAY_WORKERS.labels(state=state).set(counts[state])
        metrics.GATEWAY_READY_WORKERS.set(counts[LinkState.READY])
