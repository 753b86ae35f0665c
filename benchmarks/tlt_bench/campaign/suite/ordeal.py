"""A suite under load, weight updates and drafter swaps while it is disturbed, with counts of violations."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass

from tlt_bench.campaign.part import Context
from tlt_bench.campaign.suite import verdict
from tlt_bench.campaign.suite.chronicle import Chronicle
from tlt_bench.campaign.suite.http_load import HttpLoad
from tlt_bench.campaign.suite.left_behind import Traces, spools
from tlt_bench.campaign.suite.load import Load, undisturbed
from tlt_bench.campaign.suite.processes import kinds
from tlt_bench.campaign.suite.requests import draw
from tlt_bench.campaign.suite.suite import WORKERS, Suite
from tlt_bench.campaign.suite.updates import DrafterSwaps, WeightUpdates
from tlt_common.client import Client

SENDERS = 8
HTTP_SENDERS = 4
GROUPS = 8
MIN_TOKENS, MAX_TOKENS = 60, 400
UPDATE_EVERY_S = 10.0
SWAP_EVERY_S = 15.0
NO_PROGRESS_S = 240.0
"""A request is lost if no token of any request arrives for this long while everything is back: a request that waits for
room sees the tokens of others."""
LAST_UPDATE_S = 300.0
SPOOLS = 2 * WORKERS
"""Weights that may be kept: a copy per gateway and worker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordeal:
    """Context of the code that disturbs the suite."""

    suite: Suite
    load: Load
    http: HttpLoad
    chronicle: Chronicle


async def undergo(
    context: Context, started: AbstractAsyncContextManager[Suite], disturb: Callable[[Ordeal], Awaitable[None]]
) -> tuple[dict[str, float], Chronicle]:
    """
    Run a suite, let `disturb` run under load, and return the figures.

    Args:
        context: Context of the part.
        started: Runs the suite.
        disturb: Returns when everything that it disturbed has recovered.

    Raises:
        TltError: The suite did not start, or failed as a whole.
    """
    chronicle = Chronicle(context.say)
    async with started as suite:
        async with AsyncExitStack() as opened:
            clients = [await opened.enter_async_context(Client(address)) for address in suite.proxy.addresses]
            figures = await _disturbed(context, suite, clients, chronicle, disturb)
        figures["failed_services"] = verdict.failed_services(suite, chronicle)
        figures["ledger_gaps"] = await verdict.ledger_gaps(suite, chronicle)
        traces = Traces.of(suite.token, suite.directory)
    figures["left_behind"] += verdict.left_behind(traces, chronicle)
    figures["overlapping_leases"] = verdict.overlapping_leases(suite.logs, chronicle)
    figures["swaps"] = verdict.loads_of_drafters(suite.logs)
    return figures, chronicle


async def _disturbed(
    context: Context,
    suite: Suite,
    clients: Sequence[Client],
    chronicle: Chronicle,
    disturb: Callable[[Ordeal], Awaitable[None]],
) -> dict[str, float]:
    for client in clients:
        await client.wait_ready(60.0, workers=WORKERS)
    requests = draw(GROUPS, seed=context.seed, min_tokens=MIN_TOKENS, max_tokens=MAX_TOKENS)
    expected = await undisturbed(clients[0], requests)
    chronicle.note(f"{len(expected)} requests answered undisturbed")
    before = _inventory(suite)
    load = Load(clients, requests, expected, senders=SENDERS, report=chronicle.find)
    http = HttpLoad(suite.http, load, requests, expected, senders=HTTP_SENDERS, report=chronicle.find)
    updates = WeightUpdates(
        clients[-1], every_s=UPDATE_EVERY_S, note=chronicle.note, store=suite.store.weights if suite.store else ""
    )
    copies = f"{suite.store.url if suite.store else context.directory}/copies"
    swaps = DrafterSwaps(suite.services["coordinator"], copies, every_s=SWAP_EVERY_S, note=chronicle.note)
    async with asyncio.TaskGroup() as group:
        sending = group.create_task(load.run(), name="load")
        others = [group.create_task(updates.run(), name="updates"), group.create_task(swaps.run(), name="swaps")]
        over_http = group.create_task(http.run(), name="http-load")
        await disturb(Ordeal(suite=suite, load=load, http=http, chronicle=chronicle))
        for task in others:
            task.cancel()
        chronicle.note("everything is back; waiting for the last responses")
        load.stop()
        await _end(sending, load)
        await over_http
    return {
        "answers": load.answers,
        "lost": load.lost,
        "changed": load.changed + http.changed,
        "http_answers": http.answers,
        "http_lost": http.lost,
        "http_repeated": http.repeated,
        "updates": updates.version,
        "update_attempts_failed": updates.failed_attempts,
        "update_s_max": updates.slowest_s,
        "stuck_updates": await _last_update(updates, chronicle),
        "left_behind": verdict.surplus(before, _inventory(suite), chronicle),
    }


async def _end(sending: asyncio.Task[None], load: Load) -> None:
    """Wait until all requests have ended, or until there is no progress."""
    while not sending.done():
        if time.monotonic() - load.progress_s > NO_PROGRESS_S:
            load.give_up()
            sending.cancel()
            return
        await asyncio.wait({sending}, timeout=1.0)


async def _last_update(updates: WeightUpdates, chronicle: Chronicle) -> int:
    """Publish once more; return 1 if that fails although nothing is disturbed."""
    try:
        async with asyncio.timeout(LAST_UPDATE_S):
            await updates.publish()
    except TimeoutError:
        chronicle.find("weights cannot be updated although everything is back")
        return 1
    return 0


def _inventory(suite: Suite) -> Counter[str]:
    """Return the number of processes of each kind, and of copies of weights in excess."""
    found = kinds(suite.token)
    found["copies of weights"] = max(0, len(spools(suite.directory)) - SPOOLS)
    return found
