"""The part `network`."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tlt_bench.campaign.network.hosts import OWN, Network, delays, why_not
from tlt_bench.campaign.network.rules import Rules, disturbances
from tlt_bench.campaign.network.suite import PAIRS, SERVICES, running
from tlt_bench.campaign.part import Context, Outcome, Part, Size
from tlt_bench.campaign.suite.health import serves
from tlt_bench.campaign.suite.ordeal import Ordeal, undergo
from tlt_bench.campaign.suite.suite import Suite

HOLD_S = 8.0
"""Seconds that a disturbance lasts: longer than the silence after which coordinator and gateways act."""
BACK_S = 300.0
"""Time limit in seconds for all services to answer again."""
LEAST = {Size.SHORT: 4, Size.MIDDLE: 8, Size.LONG: 3 * len(PAIRS) + 2}
"""Disturbances to make even if the engines took long to start; all of them in the long form."""


async def run(context: Context) -> Outcome:
    """
    Disturb the network between the services of a suite.

    Raises:
        TltError: The suite did not start, or failed as a whole.
    """
    if reason := why_not():
        return Outcome(skipped=reason)
    if not delays():
        context.say("packets are not delayed: the kernel has no module sch_netem")
    faults = NetworkFaults(context)
    figures, chronicle = await undergo(context, faults.suite(), faults.make)
    figures |= {"disturbances": faults.made, "not_back": faults.not_back}
    return Outcome(figures=figures, findings=tuple(chronicle.findings))


@dataclass(slots=True)
class NetworkFaults:
    """Makes one disturbance after the other, in random order."""

    context: Context
    made: int = 0
    not_back: int = 0
    _network: Network | None = None

    @asynccontextmanager
    async def suite(self) -> AsyncIterator[Suite]:
        """Run the suite that is disturbed."""
        async with running(self.context.directory / "run", seed=self.context.seed) as networked:
            self._network = networked.network
            yield networked.suite

    async def make(self, ordeal: Ordeal) -> None:
        """Disturb until the deadline; return when all services answer."""
        network = self._network
        assert network is not None  # noqa: S101 - `suite` runs around it
        numbers = {name: host.number for name, host in network.hosts.items()} | {"client": OWN}
        planned = disturbances(PAIRS, numbers, delays=delays())
        order = random.Random(self.context.seed).sample(planned, len(planned))
        while self.context.left_s > 0 or self.made < LEAST[self.context.size]:
            disturbance = order[self.made % len(order)]
            ordeal.chronicle.note(disturbance.name)
            await network.apply(disturbance.rules)
            await asyncio.sleep(HOLD_S)
            await network.apply(Rules())
            self.made += 1
            ordeal.chronicle.note("healed")
            if not await _all_serve(ordeal.suite):
                self.not_back += 1
                ordeal.chronicle.find(f"not all services answer after {disturbance.name}")


async def _all_serve(suite: Suite) -> bool:
    try:
        async with asyncio.timeout(BACK_S):
            for name in SERVICES:
                while not await serves(suite.services[name], ""):  # noqa: ASYNC110 - another process
                    await asyncio.sleep(1.0)
    except TimeoutError:
        return False
    return True


PART = Part(
    name="network",
    summary="partition, delay and lose packets between each pair of services in network namespaces of their own",
    weight=2.0,
    run=run,
)
