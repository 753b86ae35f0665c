"""`tlt engine plan`: prints what an engine would capture and run, without starting it."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Plan an engine without starting it.", no_args_is_help=True)


@app.callback()
def engine() -> None:
    """Plan an engine without starting it."""


@app.command()
def plan(
    config: Annotated[
        Path | None, typer.Option(help="Worker configuration file, as for `tlt serve worker` (YAML or JSON).")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the file or environment; repeatable."),
    ] = None,
    device: Annotated[str, typer.Option(help="cuda or cpu. Default: this machine's device.")] = "auto",
    memory: Annotated[
        float | None, typer.Option(help="Memory per GPU, or of the machine, in GiB. Default: this machine's.")
    ] = None,
    attention: Annotated[
        float,
        typer.Option(min=0, help="Workspace per attention backend in GiB: 0.5 for FlashInfer, 0 for FlashAttention 3."),
    ] = 0.0,
    preset: Annotated[str, typer.Option(help="Plan a predefined case instead; table5: Table 5 of the TLT paper.")] = "",
    budget: Annotated[
        float | None, typer.Option(min=0, help="Memory budget for the graphs of --preset, in GiB.")
    ] = None,
    json_to: Annotated[
        str,
        typer.Option("--json", metavar="PATH|-", help="Write one JSON object instead of text; - for standard output."),
    ] = "",
) -> None:
    """Print the CUDA graphs an engine captures for its arms, their size, and those dropped to meet the budget."""
    # Imported late, so that `tlt --help` loads no configuration models.
    from tlt_worker.capacity import command

    if preset:
        command.show_preset(preset, budget, json_to)
    else:
        command.show_plan(config, settings or [], device=device, memory=memory, attention=attention, json_to=json_to)
