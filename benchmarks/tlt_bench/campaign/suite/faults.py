"""Runs infrastructure faults one at a time. Each is undone before the next one begins."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeAlias

from tlt_bench.campaign.part import Context, Outcome
from tlt_bench.campaign.suite.health import serves
from tlt_bench.campaign.suite.ordeal import Ordeal, undergo
from tlt_bench.campaign.suite.suite import Suite

HOLD_S = 8.0
"""Seconds that a fault lasts: longer than the silence after which coordinator and gateways act, and than every time
limit of cache and tuner towards Redis."""
BACK_S = 300.0
"""Time limit in seconds for all services to answer again."""

Fault: TypeAlias = Callable[[], AbstractAsyncContextManager[None]]
"""Holds while its block runs."""
FaultySuite: TypeAlias = AbstractAsyncContextManager[tuple[Suite, Mapping[str, Fault]]]
"""Runs a suite, and yields it with the faults that can be done to it, by name."""


async def one_by_one(context: Context, started: FaultySuite, *, least: int, calm_s: float = 0.0) -> Outcome:
    """
    Run faults in random order until the deadline, under load and weight updates.

    Args:
        context: Context of the part.
        started: Runs the suite.
        least: Minimum number of faults, even if the engines took long to start.
        calm_s: Seconds between faults.

    Raises:
        TltError: The suite did not start, or failed as a whole.
    """
    faults, made, not_back = dict[str, Fault](), 0, 0

    @asynccontextmanager
    async def suite() -> AsyncIterator[Suite]:
        async with started as (running, found):
            faults.update(found)
            yield running

    async def make(ordeal: Ordeal) -> None:
        nonlocal made, not_back
        names = random.Random(context.seed).sample(list(faults), len(faults))
        while context.left_s > 0 or made < least:
            name = names[made % len(names)]
            ordeal.chronicle.note(name)
            async with faults[name]():
                await asyncio.sleep(HOLD_S)
            made += 1
            ordeal.chronicle.note("healed")
            if not await _all_serve(ordeal.suite):
                not_back += 1
                ordeal.chronicle.find(f"not all services answer after: {name}")
            await asyncio.sleep(calm_s)

    figures, chronicle = await undergo(context, suite(), make)
    return Outcome(figures=figures | {"faults": made, "not_back": not_back}, findings=tuple(chronicle.findings))


async def _all_serve(suite: Suite) -> bool:
    try:
        async with asyncio.timeout(BACK_S):
            for address in suite.services.values():
                while not await serves(address, ""):  # noqa: ASYNC110 - another process
                    await asyncio.sleep(1.0)
    except TimeoutError:
        return False
    return True
