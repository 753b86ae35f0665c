"""Retries short calls while no gateway is reachable."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tlt_common.client.gateways import Gateways
from tlt_common.errors import TltError
from tlt_common.rpc.errors import is_transient
from tlt_common.wire import rollout as wire

PAUSES_S = (0.2, 0.4, 0.8, 1.6)
"""3 s in total: longer than a restarting gateway does not listen."""

Result = TypeVar("Result")


async def retried(gateways: Gateways, call: Callable[[wire.AsyncStub], Awaitable[Result]]) -> Result:
    """Make an idempotent call, retrying at the next gateway if one fails. A missed deadline is not retried."""
    for pause_s in PAUSES_S:
        stub = gateways.stub
        try:
            return await call(stub)
        except TltError as error:
            gateways.failed(stub, error)
            if not is_transient(error):
                raise
            await asyncio.sleep(pause_s)
    return await call(gateways.stub)
