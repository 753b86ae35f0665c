"""Reads the fleet from the coordinator, once or every second, and prints it."""

import asyncio
import json
from collections.abc import AsyncIterator

import typer
from rich.console import Console
from rich.live import Live

from tlt_common.config.base import TlsSettings
from tlt_common.domain.fleet import Fleet
from tlt_common.errors import UnavailableError
from tlt_common.rpc.channel import connect
from tlt_common.rpc.errors import translated
from tlt_common.wire import coordinator as wire
from tlt_local.table import picture, summary

EVERY_S = 1.0
ANSWER_S = 3.0


async def show(coordinator: str, console: Console, tls: TlsSettings | None, *, watch: bool, as_json: bool) -> None:
    """
    Print the fleet: as a table that is redrawn, as one table, or as JSON.

    Raises:
        UnavailableError: The coordinator is unreachable.
    """
    states = fleets(coordinator, tls, once=not watch)
    if as_json:
        async for fleet in states:
            typer.echo(json.dumps(summary(fleet)))
    elif not watch:
        async for fleet in states:
            console.print(picture(fleet))
    else:
        with Live(console=console, auto_refresh=False, screen=False) as live:
            async for fleet in states:
                live.update(picture(fleet), refresh=True)


async def fleets(coordinator: str, tls: TlsSettings | None = None, *, once: bool) -> AsyncIterator[Fleet]:
    """
    Yield the state of the fleet, every second or once.

    Raises:
        UnavailableError: The coordinator is unreachable.
    """
    async with connect(coordinator, to="coordinator", tls=tls) as channel:
        stub = wire.Stub(channel)
        while True:
            try:
                with translated():
                    yield wire.fleet_from_pb(
                        await stub.GetFleet(wire.pb.GetFleetRequest(max_changes=0), timeout=ANSWER_S)
                    )
            except UnavailableError as error:
                raise UnavailableError(
                    f"no coordinator is reachable at {coordinator}; is the suite running? (`tlt up`)"
                ) from error
            if once:
                return
            await asyncio.sleep(EVERY_S)
