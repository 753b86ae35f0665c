"""`tlt up`: the whole suite on one machine."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from tlt_lab.up.config import PORT, StackConfig
from tlt_lab.up.interrupt import run
from tlt_lab.up.stack import Stack

app = typer.Typer(add_completion=False)


@app.callback(invoke_without_command=True)
def up(
    model: Annotated[Path, typer.Option(help="Directory of a Hugging Face checkpoint (Llama, Qwen2, Qwen3).")],
    workers: Annotated[int, typer.Option(help="Engines to start.")] = 2,
    drafter: Annotated[Path | None, typer.Option(help="Drafter to begin with; else one is trained.")] = None,
    redis: Annotated[str, typer.Option(help="embedded, or a redis:// URL.")] = "embedded",
    port: Annotated[int, typer.Option(help="Of the rollout endpoint, with two more above it; 0 takes any.")] = PORT,
    cores_per_worker: Annotated[int | None, typer.Option(help="Else the cores are divided evenly.")] = None,
    run_dir: Annotated[Path | None, typer.Option(help="Keep logs, checkpoints and drafters here.")] = None,
) -> None:
    """Start everything on this machine; Ctrl-C ends it and leaves nothing behind."""
    config = StackConfig(
        model=model,
        workers=workers,
        drafter=drafter,
        redis=redis,
        port=port,
        cores_per_worker=cores_per_worker,
        run_dir=run_dir,
    )
    console = Console(highlight=False, soft_wrap=True)
    served = asyncio.Event()

    async def main() -> None:
        async with Stack(config, say=lambda text: console.print(f"[dim]{text} ...[/dim]")) as stack:
            show(console, stack)
            served.set()
            await asyncio.Event().wait()

    signal_number = run(main)
    if not served.is_set():
        raise typer.Exit(128 + (signal_number or 0))


def show(console: Console, stack: Stack) -> None:
    """Say where everything is, and what to do next."""
    console.print(f"[bold green]ready[/bold green]  rollouts at [bold]{stack.endpoint}[/bold]  (gRPC tlt.rollout.v1)")
    console.print(f"status   {stack.status_url}")
    for name, address in stack.metrics.items():
        console.print(f"metrics  http://{address}/metrics  {name}")
    console.print(f"logs     {stack.logs}")
    console.print(f"next     tlt status --coordinator {stack.coordinator}")
    console.print("Ctrl-C ends everything")
