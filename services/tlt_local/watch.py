"""Reads the fleet from the coordinator, once or repeatedly, and prints it or its problems."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Never

import typer
from rich.console import Console
from rich.live import Live

from tlt_common.config.base import TlsSettings
from tlt_common.domain.fleet import Fleet
from tlt_common.errors import TltError
from tlt_common.wire import coordinator as wire
from tlt_local.coordinator import calling
from tlt_local.table import picture, problem_lines, summary

EVERY_S = 1.0
PROBLEMS_EVERY_S = 5.0
ANSWER_S = 3.0


async def show(coordinator: str, console: Console, tls: TlsSettings | None, *, watch: bool, as_json: bool) -> None:
    """
    Print the fleet as a table, as one that is redrawn, or as JSON.

    Raises:
        UnavailableError: The coordinator is unreachable.
    """
    states = fleets(coordinator, tls, every_s=EVERY_S if watch else None)
    if as_json:
        async for fleet in states:
            typer.echo(json.dumps(summary(fleet)))
    elif not watch:
        async for fleet in states:
            console.print(picture(fleet, width=console.width))
    else:
        with Live(console=console, auto_refresh=False, screen=False) as live:
            async for fleet in states:
                live.update(picture(fleet, width=console.width), refresh=True)


async def tell_problems(coordinator: str, console: Console, tls: TlsSettings | None) -> Never:
    """Print the problems that keep workers from training or loading a drafter, each once, until cancelled."""
    told: set[str] = set()
    while True:
        with suppress(TltError):  # the coordinator restarts; whatever it answers, the suite goes on
            async for fleet in fleets(coordinator, tls, every_s=PROBLEMS_EVERY_S):
                for line in problem_lines(fleet):
                    if line not in told:
                        console.print(line, style="yellow", markup=False)
                    told.add(line)
        await asyncio.sleep(PROBLEMS_EVERY_S)


async def fleets(coordinator: str, tls: TlsSettings | None = None, *, every_s: float | None) -> AsyncIterator[Fleet]:
    """
    Yield the state of the fleet every `every_s` seconds, or once if that is None.

    Raises:
        UnavailableError: The coordinator is unreachable.
    """
    request = wire.pb.GetFleetRequest(max_changes=1)  # the last one: since when a worker is in its state
    async with calling(coordinator, tls) as stub:
        while True:
            yield wire.fleet_from_pb(await stub.GetFleet(request, timeout=ANSWER_S))
            if every_s is None:
                return
            await asyncio.sleep(every_s)
