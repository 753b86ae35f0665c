"""`tlt fetch`: a model from an object store, before a worker starts."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()


# A command of a mounted app would be `tlt fetch fetch`.
@app.callback(invoke_without_command=True, subcommand_metavar="")
def fetch_command(
    url: Annotated[str, typer.Argument(help="Directory of a checkpoint: s3://, gs://, file:// or a path.")],
    directory: Annotated[Path, typer.Argument(help="Where to; complete afterwards, or as it was.")],
) -> None:
    """Copy a checkpoint to this machine, once: a directory that holds one already is left alone."""
    from tlt_worker.source import fetch

    fetch(url, directory)
    typer.echo(f"{directory} holds {sum(1 for file in directory.rglob('*') if file.is_file())} files")
