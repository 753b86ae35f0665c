"""The part `storage`."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Protocol

from tlt_bench.campaign.part import Context, Outcome, Part, Size
from tlt_bench.campaign.storage.faults import HOLD_S, Fault, ordered
from tlt_bench.campaign.storage.local import LocalStorage
from tlt_bench.campaign.storage.remote import RemoteStorage
from tlt_bench.campaign.suite.health import serves
from tlt_bench.campaign.suite.ordeal import Ordeal, undergo
from tlt_bench.campaign.suite.suite import Suite

BACK_S = 300.0
"""Time limit in seconds for all services to answer again."""
CALM_S = 4.0
"""Seconds between two faults, in which trainers may publish and write checkpoints."""
LEAST = {Size.SHORT: 6, Size.MIDDLE: 12, Size.LONG: 60}
"""Faults of each suite to make even if the engines took long to start."""
LONGEST = "update_s_max"


class StoragePart(Protocol):
    """What a suite stores its state in."""

    def suite(self) -> AbstractAsyncContextManager[Suite]:
        """Run a suite on it."""
        ...

    def faults(self, suite: Suite) -> Mapping[str, Fault]:
        """Return what can be done to it, by name; each fault is undone at the end of its block."""
        ...


async def run(context: Context) -> Outcome:
    """
    Make the storage of two suites fail in every way, under load and weight updates: one on disks, one on an S3.

    Raises:
        TltError: A suite did not start, or failed as a whole.
    """
    half_s = time.monotonic() + context.left_s / 2
    local = replace(context, directory=context.directory / "local", deadline_s=half_s)
    remote = replace(context, directory=context.directory / "remote")
    return both(await _outcome(local, LocalStorage(local)), await _outcome(remote, RemoteStorage(remote)))


def both(first: Outcome, second: Outcome) -> Outcome:
    """Return the outcome of two suites together."""
    figures = {name: value + second.figures[name] for name, value in first.figures.items()}
    figures[LONGEST] = max(first.figures[LONGEST], second.figures[LONGEST])
    return Outcome(figures=figures, findings=first.findings + second.findings)


async def _outcome(context: Context, storage: StoragePart) -> Outcome:
    faults = StorageFaults(context, storage)
    figures, chronicle = await undergo(context, storage.suite(), faults.make)
    figures |= {"faults": faults.made, "not_back": faults.not_back}
    return Outcome(figures=figures, findings=tuple(chronicle.findings))


@dataclass(slots=True)
class StorageFaults:
    """Makes one fault after the other."""

    context: Context
    storage: StoragePart
    made: int = 0
    not_back: int = 0

    async def make(self, ordeal: Ordeal) -> None:
        """Make faults until the deadline; return when all services answer."""
        faults = self.storage.faults(ordeal.suite)
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
    summary="make Redis, disks and an object store fail, and set the clock, under load",
    weight=2.0,
    run=run,
)
