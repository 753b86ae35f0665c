"""`tlt up`: the whole suite on one machine."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tlt_local.addresses import PORT

if TYPE_CHECKING:
    from rich.console import Console

    from tlt_local.configuration.config import StackConfig
    from tlt_local.stack import Stack
    from tlt_local.supervision.start_lines import StartLines

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
  tlt up --model ./Qwen3-8B --dry-run

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
        typer.Option(
            metavar="DIR|NAME",
            help="Hugging Face checkpoint (Llama, Qwen, GLM-4 MoE, gpt-oss, ...), or the name of one that `tlt models "
            "get` fetched. Required here or in FILE.",
        ),
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
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Check everything and print what would start, where, and its memory, without starting."
        ),
    ] = False,
) -> None:
    from rich.console import Console
    from rich.text import Text

    from tlt_local.supervision.start_lines import StartLines

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
    console = Console(highlight=False, soft_wrap=True)
    with StartLines(lambda line: console.print(Text(line, style="dim"))) as lines:
        if not dry_run:
            lines.say("checking the model and the options")

        from tlt_local.configuration.file import stack_config

        wanted = stack_config(config, options, settings or ())
        if not dry_run:
            _serve(wanted, console, lines)
            return

        from tlt_local.dry_run import dry_run_lines

        typer.echo("\n".join(dry_run_lines(wanted)))


def _serve(wanted: "StackConfig", console: "Console", lines: "StartLines") -> None:
    """
    Run the suite until a signal.

    Raises:
        Exit: The signal came while it started.
    """
    import asyncio

    from tlt_local.configuration.certificates import certificate_of
    from tlt_local.interrupt import run
    from tlt_local.stack import Stack
    from tlt_local.watch import tell_problems

    served = asyncio.Event()

    async def main() -> None:
        async with Stack(wanted, say=lines.say, restarts=True) as stack:
            lines.stop()
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
