"""`tlt try`. Imports only what its help needs."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False)


@app.callback(invoke_without_command=True)
def try_(
    model: Annotated[
        Path,
        typer.Option(
            metavar="DIR|NAME", help="Hugging Face checkpoint, or the name of one that `tlt models get` fetched."
        ),
    ],
    prompts: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Your prompts: an object per line with messages (a conversation), prompt (text) or prompt_token_ids. "
            "Default: word problems.",
        ),
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="Prompts to use at most.")] = 8,
    samples: Annotated[int, typer.Option(min=1, help="Responses to each prompt.")] = 2,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Maximum length of a response.")] = 384,
    temperature: Annotated[
        float | None, typer.Option(min=0.0, help="Temperature: that of your run. Default: 0.6 for smollm2, else 1.")
    ] = None,
    drafter: Annotated[
        str | None,
        typer.Option(
            metavar="DIR|none",
            help="Drafter to start with; none starts without. Default: the shipped one for smollm2, else none.",
        ),
    ] = None,
    minutes: Annotated[
        float, typer.Option(min=2, help="Time for everything, start-up included; training gets what is left.")
    ] = 10.0,
    workers: Annotated[int | None, typer.Option(min=1, help="Workers. Default: as `tlt up` decides.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SERVICE.KEY=VALUE", help="Set a key, as for `tlt up`. Repeatable."),
    ] = None,
    json: Annotated[
        str, typer.Option("--json", metavar="PATH|-", help="Also write the result as JSON; - for standard output.")
    ] = "",
) -> None:
    """
    See what TLT brings for your model and prompts: roll out a batch without and with speculation, and compare.

    Starts a suite, rolls out the batch with speculation and lending off, trains a drafter on the states captured
    meanwhile, and rolls the same batch out again with speculation, with the same seeds. Prints tokens per second,
    accept length, the time of the longest responses and how many are identical, and the lines for your trainer. On a
    machine with GPUs it runs on these. SmolLM2-135M takes less than ten minutes on two CPU cores:

        tlt models get smollm2

        tlt try --model smollm2
    """
    from tlt_local.supervision.start_lines import StartLines

    with StartLines(lambda line: typer.echo(line, err=json == "-")) as lines:
        lines.say("checking the model and the prompts")

        from word_problems.trial.run import Wish, try_out

        wish = Wish(
            model=model,
            prompts=prompts,
            count=count,
            samples=samples,
            max_new_tokens=max_new_tokens,
            temperature=temperature,
            drafter=drafter,
            minutes=minutes,
            workers=workers,
            settings=tuple(settings or ()),
        )
        try_out(wish, lines, json_to=json)


if __name__ == "__main__":
    app()
