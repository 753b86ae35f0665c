"""Seeded requests from a trainer outside the cluster, compared with the responses of the undisturbed suite."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, contextmanager

from tests.cluster.eventually import eventually
from tests.cluster.suite.installed import Suite
from tlt_bench.campaign.suite.load import Load, undisturbed
from tlt_bench.campaign.suite.requests import draw
from tlt_common.client import Client

CLIENTS = 2
SENDERS = 6
START_S = 300.0
END_S = 600.0
"""Time limit in seconds for the last responses; they may wait for an engine to start."""


@contextmanager
def under_load(suite: Suite, record: Callable[[str, object], None]) -> Iterator[None]:
    """
    Send requests within the block; then require that every response arrived as it would have without the block.

    Args:
        record: Called with the numbers of responses compared, lost and changed: pytest's `record_property`.
    """
    findings: list[str] = []
    loading, ended = threading.Event(), threading.Event()
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(lambda: asyncio.run(_run(suite, loading, ended, findings)))
        try:
            eventually(lambda: loading.is_set() or running.done(), START_S)
            yield
        finally:
            ended.set()
        load = running.result(END_S)
    for name, count in (("compared", load.answers), ("lost", load.lost), ("changed", load.changed)):
        record(name, count)
    assert not findings, "\n".join(findings)
    assert load.answers > 0


async def _run(suite: Suite, loading: threading.Event, ended: threading.Event, findings: list[str]) -> Load:
    async with AsyncExitStack() as opened:
        clients = [await opened.enter_async_context(Client(suite.endpoint, **suite.access)) for _ in range(CLIENTS)]
        requests = draw(4, seed=7, min_tokens=60, max_tokens=300)
        expected = await undisturbed(clients[0], requests)
        load = Load(clients, requests, expected, senders=SENDERS, report=lambda text, _: findings.append(text))
        async with asyncio.TaskGroup() as group:
            group.create_task(load.run(), name="load")
            loading.set()
            await asyncio.to_thread(ended.wait)
            load.stop()
        return load
