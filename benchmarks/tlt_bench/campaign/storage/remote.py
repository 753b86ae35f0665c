"""A suite on a failing object store, with a wall clock that is changed."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager

from countdown.settings import DRAFTER
from tlt_bench.campaign.part import Context
from tlt_bench.campaign.storage import object_store
from tlt_bench.campaign.storage.clocks import clock_at, why_not
from tlt_bench.campaign.storage.faults import remote_faults
from tlt_bench.campaign.suite.faults import Fault
from tlt_bench.campaign.suite.stored import stored
from tlt_bench.campaign.suite.suite import MODEL, Store, Suite, running
from tlt_worker.engine.launch import environment


@asynccontextmanager
async def remote_storage(context: Context) -> AsyncIterator[tuple[Suite, Mapping[str, Fault]]]:
    """
    Run the suite on an S3 server, which it finds through the environment like other clients; yield it with its faults.

    Includes faults of the wall clock if libfaketime is installed.
    """
    clock = await asyncio.to_thread(clock_at, context.directory / "clock")
    if reason := why_not():
        context.say(reason)
    with ExitStack() as parts:
        calls, endpoint = parts.enter_context(object_store.serving())
        parts.enter_context(environment(object_store.environment(endpoint)))
        store = await asyncio.to_thread(_filled, calls.bucket)
        if clock:
            parts.enter_context(environment(clock.environment))
        async with running(context.directory / "run", seed=context.seed, store=store) as suite:
            yield suite, remote_faults(calls, clock)


def _filled(bucket: str) -> Store:
    """Create a bucket with the first drafter and the served weights; return their locations."""
    url = object_store.create_bucket(bucket)
    return Store(url=url, drafter=stored(DRAFTER, url, "first"), weights=stored(MODEL, url, "weights"))
