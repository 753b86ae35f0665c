"""`tlt journal`: what gateways and coordinators have written down for simulations."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tlt_common.journal.contents import JournalContents

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Journals of gateways and coordinators: lengths, times and states of a run, without tokens or texts "
    "(`gateway.journal`, `coordinator.journal`).",
)

Directory = Annotated[Path, typer.Argument(metavar="DIR", help="The directory that the services wrote to.")]


@app.callback()
def journal() -> None:
    """Keep `check` a command of its own: there will be others."""


@app.command()
def check(
    directory: Directory,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per journal.")] = False,
) -> None:
    """
    Check every line of the journals in a directory, and print what is in them.

    Exit codes: 0 all are valid, 2 one is not: the file, the line and the field are named. A line that is cut at the end
    of the last file, as by a crash, is left out and named.
    """
    from tlt_common.journal.contents import contents_of
    from tlt_common.journal.reader import journals_in

    for each in journals_in(directory):
        contents = contents_of(each)
        print(_json(contents) if as_json else "\n".join(_lines(contents)))


def _json(contents: "JournalContents") -> str:
    import json
    from dataclasses import asdict

    return json.dumps(asdict(contents))


def _lines(contents: "JournalContents") -> list[str]:
    from datetime import UTC, datetime

    began = datetime.fromtimestamp(contents.began_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    size_mib, suites = contents.size_bytes / 2**20, ", ".join(contents.suites)
    figures = [
        f"{contents.service} {contents.id}",
        f"  {size_mib:.1f} MiB in {contents.files} files; runs: {contents.runs}, of version {suites}",
        f"  {contents.seconds / 3600:.2f} hours from {began}",
        "  " + ", ".join(f"{count} {kind}" for kind, count in contents.lines.items()),
        f"  workers: {contents.workers}",
    ]
    if contents.service == "gateway":
        figures.append(
            f"  responses: {contents.lines.get('response', 0)} to {contents.groups} prompts, {contents.tokens} tokens; "
            f"steps: {contents.steps}; rounds: {contents.rounds}"
        )
    else:
        figures.append(f"  trained: {contents.trained_s:.1f} device-seconds")
    if contents.dropped:
        figures.append(f"  incomplete: {contents.dropped} lines were not written, since the disk was too slow")
    if contents.cut:
        figures.append(f"  cut: {contents.cut}, which was left out")
    return figures
