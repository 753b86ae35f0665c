"""Formats the fleet as a table or as plain values."""

from dataclasses import asdict
from datetime import UTC, datetime
from math import isfinite
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from tlt_common.domain.fleet import Fleet, WorkerAccount, WorkerState

HEADINGS = (
    "worker", "state", "run", "lease", "policy", "drafter", "arm", "accept", "tokens", "trainer", "lending",
)  # fmt: skip
WIDE = 110
"""Columns of a terminal from which on all are shown; the others fit into 80."""
WIDE_ONLY = {"lease", "tokens", "trainer"}
FOLDED = {"worker", "lending"}
"""Columns that continue in the next line rather than being cut."""
LEFT = {"worker", "state", "arm", "lending"}
COLORS = {
    WorkerState.ROLLOUT: "green",
    WorkerState.TRAINING: "magenta",
    WorkerState.SWITCHING: "yellow",
    WorkerState.UPDATING: "cyan",
    WorkerState.IDLE: "white",
    WorkerState.STARTING: "white",
    WorkerState.RESTING: "white",
    WorkerState.DOWN: "red",
}


def summary(fleet: Fleet) -> dict[str, Any]:
    """Return the fleet as plain values, for --json."""
    return asdict(fleet)


def picture(fleet: Fleet, *, width: int) -> Group:
    """Return the fleet as a table for this many columns, a summary line, and what is wrong with workers."""
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold")
    shown = [heading for heading in HEADINGS if width >= WIDE or heading not in WIDE_ONLY]
    for heading in shown:
        folds = heading in FOLDED
        table.add_column(heading, justify="left" if heading in LEFT else "right", no_wrap=not folds, overflow="fold")
    for account in fleet.workers:
        cells = dict(zip(HEADINGS, row(account), strict=True))
        table.add_row(*(cells[heading] for heading in shown))
    problems = [Text(line, style="yellow") for line in problem_lines(fleet)]
    return Group(table, Text(footer(fleet), style="bold"), *problems)


def problem_lines(fleet: Fleet) -> list[str]:
    """Return the problems of workers, one per line: why they do not train, load a drafter, or run, and since when."""
    workers: dict[str, list[str]] = {}
    for account in fleet.workers:
        if problem := _problem(account):
            workers.setdefault(problem, []).append(account.hello.worker_id)
    return [f"{', '.join(names)}: {problem}" for problem, names in workers.items()]


def _problem(account: WorkerAccount) -> str:
    why = account.status.problem
    if account.status.state is not WorkerState.DOWN or not account.timeline:
        return why
    since = datetime.fromtimestamp(account.timeline[-1].at_unix_s, UTC).astimezone()
    return f"down since {since:%H:%M:%S}: {why or 'its connection ended'}"


def row(account: WorkerAccount) -> tuple[Text | str, ...]:
    """Return one worker's cells, with a dash for missing values. The trainer's cell has steps and last loss."""
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
        training if status.trainer_ready else "not ready",
        account.standing,
    )


def footer(fleet: Fleet) -> str:
    """Return the summary line of the fleet."""
    drafter = f"drafter v{fleet.drafter.version}" if fleet.drafter else "no drafter yet"
    # 0: not measured, as for a drafter passed to `tlt up`.
    measured = fleet.drafters[-1].held_out_top1 if fleet.drafters else 0.0
    top1 = f" (held-out top-1 {measured:.2f})" if measured else ""
    lending = "" if fleet.lending else "   lending is off"
    paused = f"   {_paused(fleet.pause_left_s)}" if fleet.pause_left_s else ""
    return f"queue {fleet.queued}{paused}   {drafter}{top1}   bubbles used {fleet.bubble_utilisation:.0%}{lending}"


def _paused(left_s: float) -> str:
    return f"paused, continues within {left_s:.0f} s" if isfinite(left_s) else "paused"
