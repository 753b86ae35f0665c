"""`tlt fetch`: copies a model from an object store before a worker starts."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()


# A command of a mounted app would be `tlt fetch fetch`.
@app.callback(invoke_without_command=True, subcommand_metavar="")
def fetch_command(
    url: Annotated[str, typer.Argument(help="Checkpoint directory: s3://, gs://, file:// or a path.")],
    directory: Annotated[Path, typer.Argument(help="Destination; written completely or not at all.")],
) -> None:
    """Copy a checkpoint to this machine, unless the directory already contains one."""
    from tlt_worker.weights.source import WeightSources

    # Whoever types the command may read what the process may read.
    WeightSources(prefixes=("/", url)).fetch(url, directory)
    typer.echo(f"{directory} contains {sum(1 for file in directory.rglob('*') if file.is_file())} files")
