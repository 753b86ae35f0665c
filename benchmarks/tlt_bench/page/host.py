"""
A coordinator with a simulated fleet in a separate process.

`python -m tlt_bench.page.host WORKERS [--listen HOST:PORT] [--tokens FILE] [--odd ID]... [--problem TEXT]` prints the
page's address.
"""

import argparse
import asyncio
from collections.abc import Sequence
from pathlib import Path

from tlt_bench.page.simulated_fleet import CONFIG, SimulatedFleet, names
from tlt_common.rpc.http.protocol import timed
from tlt_common.rpc.http.server import address_of, bind, serve_http
from tlt_common.telemetry.log import configure
from tlt_coordinator.clock import Clock
from tlt_coordinator.coordinator import Coordinator
from tlt_coordinator.http.app import app
from tlt_coordinator.http.event_feed import EventFeed
from tlt_coordinator.http.viewer_access import access_of
from tlt_coordinator.main import RECEIVE_S, lend
from tlt_coordinator.state import StateStore


async def serve(workers: Sequence[str], *, problem: str, listen: str, tokens: Path | None) -> None:
    """Serve until cancelled."""
    clock = Clock()
    coordinator = Coordinator(CONFIG, StateStore.open(None, now_s=clock.now()), clock)
    with bind(listen) as socket:
        async with asyncio.TaskGroup() as parts:
            parts.create_task(lend(coordinator))
            if workers:  # else the page of a suite that starts
                parts.create_task(SimulatedFleet(coordinator, workers, clock, problem).run())
            print(f"http://{address_of(socket)}/", flush=True)
            feed = EventFeed(coordinator.observer)
            parts.create_task(feed.run())
            await serve_http(app(coordinator.observer, feed, access_of(tokens)), socket, protocol=timed(RECEIVE_S))


def main() -> None:
    """Serve until killed."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("workers", type=int)
    options.add_argument("--listen", default="127.0.0.1:0")
    options.add_argument("--tokens", type=Path)
    options.add_argument("--odd", action="append", default=[])
    options.add_argument("--problem", default="the trainer ended with exit code 1")
    given = options.parse_args()
    configure("warning")
    workers = names(given.workers, given.odd)
    asyncio.run(serve(workers, problem=given.problem, listen=given.listen, tokens=given.tokens))


if __name__ == "__main__":
    main()
