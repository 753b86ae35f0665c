"""A device without a thread, on which every call takes the same virtual time; and a fleet of which tests say all."""

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch

from tlt_common.domain.fleet import DrafterWish
from tlt_common.domain.ids import DrafterVersion
from tlt_common.errors import StaleVersionError, UnavailableError

P = ParamSpec("P")
T = TypeVar("T")


class InlineDevice:
    """Keeps the Device protocol. `begun` counts calls by the name of the function."""

    torch = torch.device("cpu")

    def __init__(self, call_s: float = 0.0) -> None:
        self._call_s = call_s
        self._busy = asyncio.Lock()
        self.begun: dict[str, int] = {}

    async def run(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        name = call.__name__.strip("_")
        self.begun[name] = self.begun.get(name, 0) + 1
        async with self._busy:
            await asyncio.sleep(self._call_s)
            return call(*args, **kwargs)

    async def free(self) -> None:
        async with self._busy:
            pass

    @property
    def micro_steps(self) -> int:
        return self.begun.get("micro_step", 0)


class FakeFleet:
    """Keeps the Fleet protocol: a coordinator that compares and swaps, and can be away."""

    def __init__(self) -> None:
        self.drafter: DrafterWish | None = None
        self.refused = 0
        self.away = False

    async def newest(self) -> DrafterWish | None:
        self._answer()
        return self.drafter

    async def publish(self, *, base: DrafterVersion, uri: str, top1: float) -> DrafterVersion:
        self._answer()
        newest = self.drafter.version if self.drafter else DrafterVersion(0)
        if base != newest:
            self.refused += 1
            raise StaleVersionError(f"base_version is {base}; accepted: {newest}")
        self.drafter = DrafterWish(version=DrafterVersion(newest + 1), uri=uri)
        return self.drafter.version

    def _answer(self) -> None:
        if self.away:
            raise UnavailableError("the coordinator does not answer")
