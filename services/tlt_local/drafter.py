"""`tlt drafter`: the trainer's commands, and `collect`, which needs a suite."""

from pathlib import Path
from typing import Annotated

import typer

from tlt_trainer.cli import app

__all__ = ["app"]

REPORT_EVERY_S = 10.0


@app.command()
def collect(
    model: Annotated[
        Path,
        typer.Option(metavar="DIR|NAME", help="Checkpoint of the policy, or the name of one from `tlt models get`."),
    ],
    prompts: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="Prompts: an object per line with messages (a conversation), prompt (text) or prompt_token_ids.",
        ),
    ],
    to: Annotated[Path, typer.Option(metavar="FILE", help="File for the responses; one that exists is continued.")],
    samples: Annotated[int, typer.Option(min=1, help="Responses to each prompt.")] = 1,
    temperature: Annotated[float, typer.Option(min=0.0, help="Temperature: that of your run.")] = 1.0,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Maximum length of a response: that of your run.")] = 1024,
    at_once: Annotated[int, typer.Option(min=1, help="Responses that are generated at once.")] = 64,
    endpoint: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT", help="Rollout endpoint of a suite that serves the policy. Default: start one."
        ),
    ] = "",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set a key of the started suite's workers. Repeatable."),
    ] = None,
) -> None:
    """
    Collect the policy's own responses to your prompts, for `tlt drafter train`.

    Starts a suite for the collection, or uses a running one. If interrupted, the same command continues, since
    responses are written as they finish. Estimates the remaining time after the first responses.
    """
    import time

    from tlt_common.errors import ConfigError
    from tlt_local.collecting.collect import Collection, CollectionProgress
    from tlt_local.collecting.collect import collect as run_collection
    from tlt_local.configuration.settings import checked
    from tlt_local.interrupt import run
    from tlt_local.models.published import checkpoint_of

    if endpoint and settings:
        raise ConfigError("--set applies to a suite that is started; accepted: without --endpoint", field="set")
    asked = Collection(
        model=checkpoint_of(model),
        prompts=prompts,
        to=to,
        samples=samples,
        temperature=temperature,
        max_new_tokens=max_new_tokens,
        at_once=at_once,
        endpoint=endpoint,
        settings=checked("worker", {}, settings or ()),
    )
    said_s = 0.0

    def report(now: CollectionProgress) -> None:
        nonlocal said_s
        if now.done < now.wanted and time.monotonic() - said_s < REPORT_EVERY_S:
            return
        said_s = time.monotonic()
        speed = now.tokens / max(1e-9, now.seconds)
        typer.echo(
            f"{now.done} of {now.wanted} responses, {speed:.0f} tokens/s, {now.left_s / 60:.0f} minutes left", err=True
        )

    async def body() -> None:
        found = await run_collection(asked, say=lambda line: typer.echo(line, err=True), report=report)
        typer.echo(f"{found.done} responses are in {to}")

    if signal_number := run(body):
        typer.echo(f"interrupted; the same command continues {to}", err=True)
        raise typer.Exit(128 + signal_number)
