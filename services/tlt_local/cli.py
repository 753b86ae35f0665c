"""`tlt up`: the whole suite on one machine."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tlt_local.addresses import PORT

if TYPE_CHECKING:
    from rich.console import Console

    from tlt_local.stack import Stack

app = typer.Typer(add_completion=False)

HELP = """
Start the suite on this machine: gateway, workers, cache, spot trainers, tuner and coordinator.

Ctrl-C stops it and removes every process and file, except what --run-dir keeps. Options override the file, and each
--set overrides the file's key. `tlt config explain SERVICE` lists the keys of a service; addresses, ports and
directories are chosen by `tlt up` and cannot be set.

\b
Examples:
  tlt up --model ./Qwen3-8B --workers 2 --gpus-per-worker 1
  tlt up --model ./Qwen3-8B --set worker.engine.max_running=64
  tlt up --model ./Qwen3-8B --set worker.engine.arms=off,chain-3
  tlt up --model ./Qwen3-8B --set worker.drafter_dir=s3://runs/drafters --set worker.checkpoint_dir=s3://runs/checkpoints
  tlt up --config up.yaml --set gateway.max_queued=4096

\b
up.yaml:
  model: ./Qwen3-32B
  workers: 2
  worker: {engine: {tensor_parallel: 4, context_length: 32768}}
  trainer: {publish: {gain: 0.05}}
"""


@app.callback(invoke_without_command=True, help=HELP)
def up(
    model: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Hugging Face checkpoint (Llama, Qwen2, Qwen3). Required here or in FILE."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="YAML or JSON: these options as keys (run_dir, ...), and a section per service (worker, ...).",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="SERVICE.KEY=VALUE",
            help="Set a key of gateway, worker, cache, trainer, tuner or coordinator; nested keys by dots. Repeatable.",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            help="Workers to start, one engine each. Default: as many as there are GPUs for; without GPUs, 2."
        ),
    ] = None,
    gpus_per_worker: Annotated[
        int | None,
        typer.Option(
            help="GPUs of each worker's engine; 0 runs it on the CPU. "
            "Default: worker.engine.tensor_parallel, or 1; 0 on a machine without GPUs."
        ),
    ] = None,
    cores_per_worker: Annotated[
        int | None, typer.Option(help="CPU cores of each worker. Default: all, divided evenly.")
    ] = None,
    drafter: Annotated[
        str | None,
        typer.Option(
            metavar="PATH|URL",
            help="Drafter to start with, as the fleet's first version; spot trainers continue from it. "
            "Default: none until one is trained.",
        ),
    ] = None,
    redis: Annotated[str | None, typer.Option(help="`embedded`, or a redis:// URL. Default: embedded.")] = None,
    port: Annotated[
        int | None,
        typer.Option(
            help="Port of the rollout endpoint; the coordinator, its status page and the endpoint over HTTP use "
            f"the next three. 0: any free ports. Default: {PORT}."
        ),
    ] = None,
    tls: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Encrypt every port: DIR holds COMPONENT/tls.crt, tls.key and ca.crt for gateway, coordinator, "
            "worker, cache, tuner and admin. Default: plain text.",
        ),
    ] = None,
    run_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Directory for logs, checkpoints and drafters, unless these have URLs. Default: a temporary one, "
            "deleted at exit.",
        ),
    ] = None,
) -> None:
    import asyncio

    from rich.console import Console

    from tlt_local.configuration.certificates import certificate_of
    from tlt_local.configuration.file import stack_config
    from tlt_local.interrupt import run
    from tlt_local.stack import Stack
    from tlt_local.watch import tell_problems

    options = {
        "model": model,
        "workers": workers,
        "gpus_per_worker": gpus_per_worker,
        "cores_per_worker": cores_per_worker,
        "drafter": drafter,
        "redis": redis,
        "port": port,
        "tls": tls,
        "run_dir": run_dir,
    }
    wanted = stack_config(config, options, settings or ())
    console = Console(highlight=False, soft_wrap=True)
    served = asyncio.Event()

    async def main() -> None:
        async with Stack(wanted, say=lambda text: console.print(f"[dim]{text} ...[/dim]"), restarts=True) as stack:
            show(console, stack, wanted.tls)
            served.set()
            await tell_problems(stack.coordinator, console, certificate_of(wanted.tls, "admin"))

    signal_number = run(main)
    if not served.is_set():
        raise typer.Exit(128 + (signal_number or 0))


def show(console: "Console", stack: "Stack", tls: Path | None) -> None:
    """Print the addresses and the next command."""
    from tlt_local.configuration.certificates import certificate_of

    scheme = "https" if tls else "http"
    files = certificate_of(tls, "admin")
    access = f" --ca {files.ca} --certificate {files.certificate} --key {files.key}" if files else ""
    console.print(f"[bold green]ready[/bold green]  rollouts at [bold]{stack.endpoint}[/bold]  (gRPC tlt.rollout.v1)")
    if stack.http_url:
        console.print(f"http     {stack.http_url}  (SGLang and OpenAI protocols)")
    if stack.page_url:
        console.print(f"page     [bold]{stack.page_url}[/bold]  (the fleet, live, in a browser)")
    for name, address in stack.metrics.items():
        console.print(f"metrics  {scheme}://{address}/metrics  {name}")
    console.print(f"logs     {stack.logs}")
    console.print(f"next     tlt status --coordinator {stack.coordinator}{access}")
    console.print("Ctrl-C stops everything")
