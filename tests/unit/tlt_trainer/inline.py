"""A device without a thread, on which every call takes the same virtual time; and a fleet of which tests say all."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

import torch

from tlt_common.domain.fleet import DrafterWish, Publication
from tlt_common.domain.ids import DrafterVersion
from tlt_common.errors import InvalidRequestError, StaleVersionError, UnavailableError

P = ParamSpec("P")
T = TypeVar("T")


class InlineDevice:
    """Keeps the Device protocol. `begun` counts calls by the name of the function."""

    torch = torch.device("cpu")

    def __init__(self, call_s: float = 0.0) -> None:
        self.call_s = call_s
        self._busy = asyncio.Lock()
        self.begun: dict[str, int] = {}
        self.trained_s = 0.0
        self.computed_s = call_s
        """Seconds of a call in which the device computed; other processes may have had the core in the rest."""
        self._now_s = 0.0

    def now(self) -> float:
        self._now_s += self.computed_s  # at the beginning and the end of a call
        return self._now_s

    async def run(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        name = call.__name__.strip("_")
        self.begun[name] = self.begun.get(name, 0) + 1
        async with self._busy:
            await asyncio.sleep(self.call_s)
            return call(*args, **kwargs)

    @contextmanager
    def training(self) -> Iterator[None]:
        try:
            yield
        finally:
            self.trained_s += self.call_s

    async def free(self) -> None:
        async with self._busy:
            pass

    @property
    def micro_steps(self) -> int:
        return self.begun.get("micro_step", 0)


class FakeFleet:
    """Keeps the DrafterRegistry protocol: a coordinator that compares and swaps, and can be away or refuse."""

    def __init__(self) -> None:
        self.drafter: DrafterWish | None = None
        self.asked, self.offered, self.refused = 0, 0, 0
        self.accepts = asyncio.Event()
        """Cleared, it keeps publications waiting."""
        self.accepts.set()
        self.away = False
        self.hides_newest = False
        """Whether `newest` returns an old answer, as if another trainer published right after it."""
        self.least_top1 = 0.0
        self.publications: list[Publication] = []
        self._before: DrafterWish | None = None

    async def newest(self) -> DrafterWish | None:
        self.asked += 1
        self._answer()
        return self._before if self.hides_newest else self.drafter

    async def publish(self, publication: Publication) -> DrafterVersion:
        self.offered += 1
        await self.accepts.wait()
        self._answer()
        self.hides_newest = False
        base = publication.base
        if publication.held_out_top1 < self.least_top1:
            raise InvalidRequestError(f"held_out_top1 is {publication.held_out_top1}", field="held_out_top1")
        newest = self.drafter.version if self.drafter else DrafterVersion(0)
        if base != newest:
            self.refused += 1
            raise StaleVersionError(f"base_version is {base}; accepted: {newest}")
        self.publications.append(publication)
        self._before = self.drafter
        self.drafter = DrafterWish(version=DrafterVersion(newest + 1), uri=publication.uri)
        return self.drafter.version

    def _answer(self) -> None:
        if self.away:
            raise UnavailableError("the coordinator does not answer")
