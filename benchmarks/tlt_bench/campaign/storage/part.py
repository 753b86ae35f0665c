"""The part `storage`."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tlt_bench.campaign.part import Context, Outcome, Part, Size
from tlt_bench.campaign.storage.disk import SmallDisk, mounted, why_not
from tlt_bench.campaign.storage.faults import HOLD_S, faults_of, ordered
from tlt_bench.campaign.storage.redis import RedisControl
from tlt_bench.campaign.suite.health import serves
from tlt_bench.campaign.suite.ordeal import Ordeal, undergo
from tlt_bench.campaign.suite.suite import Suite, running
from tlt_local.home import WEIGHTS

DISKS = ("drafters", "checkpoints")
"""Directories of a run that get a small disk; so does the directory of its streamed weights."""
DISK_BYTES = 64 * 2**20
BACK_S = 300.0
"""Time limit in seconds for all services to answer again."""
CALM_S = 4.0
"""Seconds between two faults, in which trainers may publish and write checkpoints."""
LEAST = {Size.SHORT: 6, Size.MIDDLE: 12, Size.LONG: 60}
"""Faults to make even if the engines took long to start."""


async def run(context: Context) -> Outcome:
    """
    Make the storage of a suite fail in every way, under load and weight updates.

    Raises:
        TltError: The suite did not start, or failed as a whole.
    """
    storage = Storage(context)
    figures, chronicle = await undergo(context, storage.suite(), storage.make)
    figures |= {"faults": storage.made, "not_back": storage.not_back}
    return Outcome(figures=figures, findings=tuple(chronicle.findings))


@dataclass(slots=True)
class Storage:
    """Makes one fault after the other."""

    context: Context
    made: int = 0
    not_back: int = 0
    _disks: list[SmallDisk] = field(default_factory=list)

    @asynccontextmanager
    async def suite(self) -> AsyncIterator[Suite]:
        """Run the suite, with small disks where they can be mounted."""
        directory = self.context.directory / "run"
        async with AsyncExitStack() as parts:
            if reason := why_not():
                self.context.say(reason)
                yield await parts.enter_async_context(running(directory, seed=self.context.seed))
                return
            for name in DISKS:
                await self._mount(parts, directory / name)
            suite = await parts.enter_async_context(running(directory, seed=self.context.seed))
            await self._mount(parts, suite.directory / WEIGHTS)  # empty until the first update
            yield suite

    async def _mount(self, parts: AsyncExitStack, path: Path) -> None:
        self._disks.append(await parts.enter_async_context(mounted(path, size_bytes=DISK_BYTES)))

    async def make(self, ordeal: Ordeal) -> None:
        """Make faults until the deadline; return when all services answer."""
        redis = RedisControl(socket=ordeal.suite.directory / "redis.sock")
        faults = faults_of(redis, self._disks)
        names = ordered(tuple(faults), self.context.seed)
        while self.context.left_s > 0 or self.made < LEAST[self.context.size]:
            name = names[self.made % len(names)]
            ordeal.chronicle.note(name)
            async with faults[name]():
                await asyncio.sleep(HOLD_S)
            self.made += 1
            ordeal.chronicle.note("healed")
            if not await _all_serve(ordeal.suite):
                self.not_back += 1
                ordeal.chronicle.find(f"not all services answer after: {name}")
            await asyncio.sleep(CALM_S)


async def _all_serve(suite: Suite) -> bool:
    try:
        async with asyncio.timeout(BACK_S):
            for address in suite.services.values():
                while not await serves(address, ""):  # noqa: ASYNC110 - another process
                    await asyncio.sleep(1.0)
    except TimeoutError:
        return False
    return True


PART = Part(
    name="storage",
    summary="fill, pause, flush and restart Redis, and fill the disks of drafters, checkpoints and weights, under load",
    weight=2.0,
    run=run,
)
