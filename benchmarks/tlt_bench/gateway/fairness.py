"""Fairness between ten owners with different loads at one gateway: each owner's part of its fair share."""

import asyncio
import random
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from tlt_bench.engines.bench_engine import log
from tlt_bench.gateway import servers
from tlt_bench.gateway.processes import process
from tlt_common.client import Client, SamplingParams
from tlt_common.errors import TltError

SLOTS = 64
AT_ONCE = (1000, 1000, 1000, 32, 16, 8, 4, 1, 1, 1)
"""Requests that each owner has at the gateway at a time: it sends another when one has ended."""
TOKENS = range(25, 76)
"""Tokens of responses, drawn evenly. With equal ones, all slots would be free at the same moments only."""
WARM_UP_S, SECONDS = 5.0, 40.0


@dataclass(slots=True)
class _Owner:
    """A caller with its own token."""

    client: Client
    at_once: int
    served: int = 0
    counts: bool = False

    async def run(self, seed: int) -> None:
        """Send until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(self.at_once):
                group.create_task(self._send(random.Random(1000 * seed + number)))

    async def _send(self, lengths: random.Random) -> None:
        while True:
            late = SamplingParams(max_new_tokens=lengths.choice(TOKENS), seed=servers.LATE)
            await self.client.generate([1], late)
            self.served += self.counts


def shares(total: float, wanted: Sequence[float]) -> list[float]:
    """
    Divide the served amount max-min fairly: an equal share, or an owner's demand if that is less.

    Args:
        total: The served amount.
        wanted: Demand of each owner.
    """
    found, left = [0.0] * len(wanted), total
    for place, index in enumerate(sorted(range(len(wanted)), key=wanted.__getitem__)):
        found[index] = min(wanted[index], left / (len(wanted) - place))
        left -= found[index]
    return found


async def measure() -> Mapping[str, float]:
    """Run all owners concurrently; return the lowest fraction of its fair share that an owner received."""
    names = [f"owner{index}-0123456789abcdef" for index in range(len(AT_ONCE))]
    with TemporaryDirectory(prefix="tlt-bench-") as scratch:
        tokens = Path(scratch) / "tokens"
        named = [{"name": name.partition("-")[0], "token": name, "scopes": ["generate"]} for name in names]
        tokens.write_text(yaml.safe_dump({"tokens": named}))
        with (
            process(servers.serve_worker, str(SLOTS)) as (worker, _),
            process(servers.serve_gateway, worker, str(tokens)) as (address, _pid),
        ):
            return await _measured(address, names)


async def _measured(address: str, names: Sequence[str]) -> Mapping[str, float]:
    async with AsyncExitStack() as opened:
        clients = [await opened.enter_async_context(Client(address, token=name)) for name in names]
        await clients[0].wait_ready(30)
        alone_s = await _alone_s(clients[-1])
        owners = [_Owner(client, at_once) for client, at_once in zip(clients, AT_ONCE, strict=True)]
        running = [asyncio.ensure_future(owner.run(index)) for index, owner in enumerate(owners)]
        await asyncio.sleep(WARM_UP_S)
        for owner in owners:
            owner.counts = True
        began_s = time.perf_counter()
        await asyncio.sleep(SECONDS)
        taken_s, served = time.perf_counter() - began_s, [owner.served for owner in owners]
        for task in running:
            task.cancel()
        outcomes = await asyncio.gather(*running, return_exceptions=True)
    if failed := [one for one in outcomes if isinstance(one, TltError | BaseExceptionGroup)]:
        raise failed[0]
    fair = shares(sum(served), [at_once * taken_s / alone_s for at_once in AT_ONCE])
    parts = [got / share for got, share in zip(served, fair, strict=True)]
    log(
        "served of a fair share: "
        + ", ".join(f"{at} at a time {part:.2f}" for at, part in zip(AT_ONCE, parts, strict=True))
    )
    return {"fair_share_min": min(parts), "fair_share_max": max(parts)}


async def _alone_s(client: Client) -> float:
    """Return the mean seconds of a response for a single caller."""
    lengths = list(TOKENS)[:: len(TOKENS) // 10]
    began_s = time.perf_counter()
    for length in lengths:
        await client.generate([1], SamplingParams(max_new_tokens=length, seed=servers.LATE))
    mean = sum(TOKENS) / len(TOKENS) / (sum(lengths) / len(lengths))
    return (time.perf_counter() - began_s) / len(lengths) * mean
