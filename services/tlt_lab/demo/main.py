"""`tlt demo`: runs, shows, reports."""

import shutil
import tempfile
from pathlib import Path

import typer
from rich.console import Console

from tlt_common.errors import ConfigError, TltError
from tlt_lab.demo.record import Run
from tlt_lab.demo.run import Watcher, run
from tlt_lab.demo.settings import QUICK, DemoSettings
from tlt_lab.up.interrupt import run as run_until_signalled


def main(*, quick: bool, out: Path) -> None:
    """Run the demo on a terminal. Ctrl-C ends it and leaves nothing running."""
    from tlt_lab.demo.report import write_report
    from tlt_lab.demo.report.terminal import last_screen
    from tlt_lab.demo.screen import Screen

    settings = QUICK if quick else DemoSettings()
    console = Console(highlight=False, soft_wrap=True)
    with Screen(console, settings) as screen:
        record = recorded(settings, out, screen)
    report = write_report(record, out)
    console.print(last_screen(record, report))


def recorded(settings: DemoSettings, out: Path, watcher: Watcher) -> Run:
    """
    Run, leave run.json in `out`, and return what it holds; logs stay in `out`/logs when something failed.

    Raises:
        ConfigError: There can be no such folder.
        typer.Exit: It failed, which was said in one line, or was interrupted.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--out: {out} cannot be made: {error.strerror}", field="out") from error
    found: list[Run] = []
    with tempfile.TemporaryDirectory(prefix="tlt-demo-", ignore_cleanup_errors=True) as scratch:
        directory = Path(scratch)

        async def body() -> None:
            found.append(await run(settings, directory, watcher))

        try:
            signal_number = run_until_signalled(body)
        except TltError as error:
            _keep_logs(directory, out / "logs")
            typer.echo(f"tlt demo: {error.message}; logs are in {out / 'logs'}", err=True)
            raise typer.Exit(1) from None
        if not found:
            raise typer.Exit(128 + (signal_number or 0))
    found[0].save(out / "run.json")
    return found[0]


def _keep_logs(scratch: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for path in scratch.rglob("*.log"):
        shutil.copy(path, target / path.name)
