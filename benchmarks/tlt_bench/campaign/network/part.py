"""The part `network`."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial

from tlt_bench.campaign.network.hosts import OWN, Network, delays, why_not
from tlt_bench.campaign.network.rules import Rules, disturbances
from tlt_bench.campaign.network.suite import PAIRS, running
from tlt_bench.campaign.part import Context, Outcome, Part, Size
from tlt_bench.campaign.suite.faults import Fault, one_by_one
from tlt_bench.campaign.suite.suite import Suite

LEAST = {Size.SHORT: 4, Size.MIDDLE: 8, Size.LONG: 3 * len(PAIRS) + 2}
"""Disturbances to make at least; all of them in the long form."""


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
    return await one_by_one(context, _networked(context), least=LEAST[context.size])


@asynccontextmanager
async def _networked(context: Context) -> AsyncIterator[tuple[Suite, Mapping[str, Fault]]]:
    async with running(context.directory / "run", seed=context.seed) as (suite, network):
        numbers = {name: host.number for name, host in network.hosts.items()} | {"client": OWN}
        planned = disturbances(PAIRS, numbers, delays=delays())
        yield suite, {one.name: partial(_applied, network, one.rules) for one in planned}


@asynccontextmanager
async def _applied(network: Network, rules: Rules) -> AsyncIterator[None]:
    await network.apply(rules)
    yield
    await network.apply(Rules())


PART = Part(
    name="network",
    summary="partition, delay and lose packets between each pair of services in network namespaces of their own",
    weight=2.0,
    run=run,
)
