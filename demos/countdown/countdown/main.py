"""Entry point of `tlt demo`."""

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import typer
from rich.console import Console

from countdown.job import Job, demo
from countdown.record import Run
from countdown.run import Observer, run
from countdown.settings import chosen
from tlt_common.errors import ConfigError, TltError
from tlt_common.journal.files import files_in
from tlt_local.interrupt import run as run_until_signaled


def main(*, quick: bool, warm: bool, sampled: bool, out: Path) -> None:
    """Run the demo in a terminal and write the report."""
    show(demo(replace(chosen(quick=quick, warm=warm), paired=not sampled)), out)


def show(job: Job, out: Path) -> None:
    """Run a job in a terminal and write its report. Ctrl-C stops it and leaves no process running."""
    from countdown.report import write_report
    from countdown.report.terminal import last_screen
    from countdown.screen import Screen

    console = Console(highlight=False, soft_wrap=True)
    with Screen(console, job) as screen:
        record = recorded(job, out, screen)
    report = write_report(record, out)
    console.print(last_screen(record, report))


def recorded(job: Job, out: Path, observer: Observer) -> Run:
    """
    Run a job, write run.json and the journal to `out`, and return the run. On failure, copy the logs to `out`/logs.

    Raises:
        ConfigError: `out` cannot be created.
        typer.Exit: The run failed (its error has been printed) or was interrupted.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--out: {out} cannot be created: {error.strerror}", field="out") from error
    journal = out.resolve() / "journal"
    for file in files_in(journal) if journal.is_dir() else ():  # of an earlier run
        file.path.unlink()
    found: list[Run] = []
    with tempfile.TemporaryDirectory(prefix="tlt-demo-", ignore_cleanup_errors=True) as scratch:
        directory = Path(scratch)

        async def body() -> None:
            found.append(await run(job, directory, journal, observer))

        try:
            signal_number = run_until_signaled(body)
        except TltError as error:
            _keep_logs(directory, out / "logs")
            typer.echo(f"{job.subject.command}: {error.message}; logs are in {out / 'logs'}", err=True)
            raise typer.Exit(1) from None
        if not found:
            raise typer.Exit(128 + (signal_number or 0))
    found[0].save(out / "run.json")
    return found[0]


def _keep_logs(scratch: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for path in scratch.rglob("*.log"):
        shutil.copy(path, target / path.name)
