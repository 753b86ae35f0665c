"""`tlt journal`: checks journals that gateways and coordinators wrote for simulations."""

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
    """Command group, which keeps `check` a subcommand."""


@app.command()
def check(
    directory: Directory,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per journal.")] = False,
) -> None:
    """
    Check every line of the journals in a directory, and print a summary.

    Exit codes: 0 if all are valid; 2 if one is not, with file, line and field in the message. A line truncated by a
    crash at the end of the last file is skipped and reported.
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
        figures.append(f"  incomplete: {contents.dropped} lines were not written because the disk was too slow")
    if contents.cut:
        figures.append(f"  cut: {contents.cut}, which was skipped")
    return figures
