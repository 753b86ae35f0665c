"""`tlt status`: workers, roles, leases, drafter, bubbles; live."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tlt_common.client.health import credentials_of
from tlt_common.config.base import TlsSettings
from tlt_common.domain.fleet import Fleet, WorkerAccount, WorkerState
from tlt_common.errors import ConfigError, UnavailableError
from tlt_common.rpc.channel import connect
from tlt_common.rpc.errors import translated
from tlt_common.wire import coordinator as wire
from tlt_lab.up.config import HOST, PORT
from tlt_lab.up.interrupt import run

app = typer.Typer(add_completion=False)
EVERY_S = 1.0
ANSWER_S = 3.0
LEFT = {"worker", "state", "arm"}
COLORS = {
    WorkerState.ROLLOUT: "green",
    WorkerState.TRAINING: "magenta",
    WorkerState.SWITCHING: "yellow",
    WorkerState.UPDATING: "cyan",
    WorkerState.IDLE: "white",
    WorkerState.DOWN: "red",
}


@app.callback(invoke_without_command=True)
def status(
    coordinator: Annotated[str, typer.Option(help="host:port, as `tlt up` prints it.")] = f"{HOST}:{PORT + 1}",
    watch: Annotated[bool, typer.Option("--watch/--once", help="Look every second until Ctrl-C, or once.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per look.")] = False,
    ca: Annotated[Path | None, typer.Option(help="Authorities that are believed (PEM); for a suite with TLS.")] = None,
    certificate: Annotated[Path | None, typer.Option(help="Own certificate, for admin.tlt.internal.")] = None,
    key: Annotated[Path | None, typer.Option(help="Its private key.")] = None,
) -> None:
    """Show workers, roles, leases, drafter version, accept length and bubble utilisation."""
    tls = credentials_of(ca, certificate, key)
    if ca and not tls:
        raise ConfigError("the coordinator asks for a certificate; give --certificate and --key", field="certificate")
    run(lambda: _show(coordinator, Console(), tls, watch=watch, as_json=as_json))


async def _show(coordinator: str, console: Console, tls: TlsSettings | None, *, watch: bool, as_json: bool) -> None:
    looks = fleets(coordinator, tls, once=not watch)
    if as_json:
        async for fleet in looks:
            typer.echo(json.dumps(summary(fleet)))
    elif not watch:
        async for fleet in looks:
            console.print(picture(fleet))
    else:
        with Live(console=console, auto_refresh=False, screen=False) as live:
            async for fleet in looks:
                live.update(picture(fleet), refresh=True)


async def fleets(coordinator: str, tls: TlsSettings | None = None, *, once: bool) -> AsyncIterator[Fleet]:
    """
    Look at the fleet, every second or once.

    Raises:
        UnavailableError: Nobody answers there.
    """
    async with connect(coordinator, to="coordinator", tls=tls) as channel:
        stub = wire.Stub(channel)
        while True:
            try:
                with translated():
                    yield wire.fleet_from_pb(await stub.GetFleet(wire.pb.GetFleetRequest(), timeout=ANSWER_S))
            except UnavailableError as error:
                raise UnavailableError(
                    f"no coordinator answers at {coordinator}; is the suite running? (`tlt up`)"
                ) from error
            if once:
                return
            await asyncio.sleep(EVERY_S)


def summary(fleet: Fleet) -> dict[str, Any]:
    """The fleet as plain values, for --json."""
    return asdict(fleet)


def picture(fleet: Fleet) -> Group:
    """The fleet as a table and one line below it."""
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold")
    for heading in ("worker", "state", "run", "lease", "policy", "drafter", "arm", "accept", "tokens", "trainer"):
        table.add_column(heading, justify="left" if heading in LEFT else "right", no_wrap=True, overflow="fold")
    for account in fleet.workers:
        table.add_row(*row(account))
    return Group(table, Text(footer(fleet), style="bold"))


def row(account: WorkerAccount) -> tuple[Text | str, ...]:
    """One worker's cells; a dash where there is nothing to say. The trainer's are its steps and its last loss."""
    status = account.status
    training = f"{status.training_steps}: {status.training_loss:.2f}" if status.training_steps else "-"
    return (
        account.hello.worker_id,
        Text(status.state.value, style=COLORS[status.state]),
        f"{status.running}/{account.hello.max_running}",
        str(status.epoch or "-"),
        str(status.policy_version),
        f"v{status.drafter_version}" if status.drafter_version else "-",
        status.arm or "-",
        f"{status.accept_length:.2f}" if status.accept_length else "-",
        str(status.produced_tokens),
        training if status.trainer_ready else "away",
    )


def footer(fleet: Fleet) -> str:
    """The fleet in one line."""
    drafter = f"drafter v{fleet.drafter.version}" if fleet.drafter else "no drafter yet"
    top1 = f" (held-out top-1 {fleet.drafters[-1].held_out_top1:.2f})" if fleet.drafters else ""
    lending = "" if fleet.lending else "   lending is off"
    return f"queue {fleet.queued}   {drafter}{top1}   bubbles used {fleet.bubble_utilisation:.0%}{lending}"
