"""`tlt engine`: prints an engine's plan and checks its model without starting it."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Plan an engine without starting it.", no_args_is_help=True)


Config = Annotated[
    Path | None, typer.Option(help="Worker configuration file, as for `tlt serve worker` (YAML or JSON).")
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the file or environment; repeatable."),
]


@app.callback()
def engine() -> None:
    """Plan an engine without starting it."""


@app.command()
def plan(
    config: Config = None,
    settings: Settings = None,
    device: Annotated[str, typer.Option(help="cuda or cpu. Default: this machine's device.")] = "auto",
    memory: Annotated[
        float | None, typer.Option(help="Memory per GPU, or of the machine, in GiB. Default: this machine's.")
    ] = None,
    card: Annotated[
        str,
        typer.Option(
            help="Plan for this GPU instead of the machine's: l4, 4090, a100-40, a100-80, h100, h200 or b200."
        ),
    ] = "",
    model_shape: Annotated[
        str,
        typer.Option(
            help="Plan for a public model: qwen2.5-7b, qwen2.5-14b, qwen2.5-32b, llama3-70b, qwen3-30b-a3b, "
            "glm-4.5-air or gpt-oss-20b."
        ),
    ] = "",
    check: Annotated[
        str,
        typer.Option(
            metavar="DIR|MODEL",
            help="Instead of a plan, compare its bytes with those of SGLang's own classes, for the config.json of a "
            "directory or for a public model; fails above 5 %. Takes half a minute.",
        ),
    ] = "",
    rounds: Annotated[
        bool,
        typer.Option(
            help="Instead of a plan, calculate what a round takes with each kind of drafter: bytes and milliseconds of "
            "drafts and verification, for 1, 4 and 16 requests. Needs --card."
        ),
    ] = False,
    json_to: Annotated[
        str,
        typer.Option("--json", metavar="PATH|-", help="Write one JSON object instead of text; - for standard output."),
    ] = "",
) -> None:
    """Print how an engine divides its device's memory, its arms, and the CUDA graphs it captures for them."""
    # Imported late, so that `tlt --help` loads no configuration models.
    from tlt_worker.commands import engine_plan as command

    wanted = command.Wanted(device=device, memory=memory, card=card, shape=model_shape)
    if check:
        if not command.show_check(config, settings or [], wanted, check, json_to=json_to):
            raise typer.Exit(1)
        return
    if rounds:
        command.show_rounds(config, settings or [], wanted, json_to=json_to)
        return
    command.show_plan(config, settings or [], wanted, json_to=json_to)


@app.command()
def check(
    config: Config = None,
    settings: Settings = None,
) -> None:
    """Check from files whether an engine can run its model and drafter, without reading weights."""
    import os

    from tlt_common.config.loader import load
    from tlt_worker.checkpoints.drafter_format import require_drafter
    from tlt_worker.config import WorkerConfig
    from tlt_worker.model.files import require_model

    worker = load(WorkerConfig, "worker", file=config, environment=os.environ, settings=settings or [])
    tensors = require_model(worker.model, worker.engine)
    require_drafter(worker.engine, worker.model)
    typer.echo(f"{worker.model}: {len(tensors.headers)} tensors; an engine runs it")
