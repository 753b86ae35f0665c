"""`tlt drafter`: trains, evaluates, imports and exports drafters."""

import json
from pathlib import Path
from typing import Annotated

import typer

HELP = "Export or import a drafter; train and evaluate one on collected rollouts."

app = typer.Typer(help=HELP, no_args_is_help=True)


Model = Annotated[Path, typer.Option(metavar="DIR", help="Checkpoint of the policy.")]
Data = Annotated[
    Path,
    typer.Option(
        metavar="FILE", help="Rollouts: an object per line with the lists of integers prompt_token_ids and token_ids."
    ),
]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda; auto is a GPU if there is one.")]


@app.callback(help=HELP)
def drafter() -> None:
    """Help group of `tlt drafter`."""


@app.command()
def export(
    source: Annotated[
        str,
        typer.Argument(
            metavar="PATH|URL",
            help="A published drafter, or a directory of them (worker.drafter_dir), of which the newest is exported.",
        ),
    ],
    to: Annotated[Path, typer.Option(metavar="DIR", help="Directory to write; must be empty or absent.")],
    engine: Annotated[str, typer.Option("--format", help="Engine that will load it: sglang or vllm.")] = "sglang",
    model: Annotated[str, typer.Option(help="Name or path of the target, for the model card.")] = "",
) -> None:
    """Write a drafter in a public format, with a model card."""
    # Imported late, so that `tlt --help` does not load torch.
    from tlt_trainer.offline.exporting import export_to

    typer.echo(f"{export_to(source, to, engine, model=model)} is in {to}")


@app.command("import")
def import_(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="Directory of the drafter, a path or URL.")],
    to: Annotated[Path, typer.Argument(metavar="OUT", help="Directory to write; must be empty or absent.")],
    model: Annotated[Path, typer.Option(metavar="DIR", help="Checkpoint of the drafter's target.")],
) -> None:
    """
    Convert a public EAGLE, EAGLE-3 or block drafter to the format of `tlt up --drafter` and the spot trainers.

    Reads drafters published by EAGLE's authors, SpecForge, vLLM's speculators, DFlash and DSpark, including
    pytorch_model.bin, and prints the changes. Features that SGLang's layers do not support are refused by name.
    """
    from tlt_trainer.offline.importing import import_to

    for change in import_to(source, to, model):
        typer.echo(change)
    typer.echo(f"{to} is ready for --drafter {to}")


@app.command()
def train(
    model: Model,
    data: Data,
    to: Annotated[Path, typer.Option(metavar="DIR", help="Directory to write; must be empty or absent.")],
    begin: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="PATH|URL",
            help="Drafter to continue. Default: train from scratch, or from the checkpoint's head for mtp.",
        ),
    ] = "",
    kind: Annotated[
        str,
        typer.Option(
            help="eagle, eagle3, block, or mtp: the checkpoint's own head. Default: that of --from, else eagle."
        ),
    ] = "",
    layers: Annotated[
        str,
        typer.Option(
            metavar="N,N,...",
            help="Layers of the policy that an EAGLE-3 or block drafter reads. Default: a low, a middle, a high one.",
        ),
    ] = "",
    draft_vocabulary: Annotated[
        int | None,
        typer.Option(
            min=1, help="Maximum number of tokens in an EAGLE-3 head: the responses' most frequent. Default: 32000."
        ),
    ] = None,
    passes: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=16,
            help="Number of consecutive drafts to train for. Default: 3 for EAGLE, 7 for others. A block drafter is "
            "trained for its block.",
        ),
    ] = None,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the data.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the order of the data.")] = 0,
    device: Device = "auto",
    work: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Directory of hidden states and checkpoints, from which an interrupted command continues; removed at "
            "the end. Default: beside --to.",
        ),
    ] = None,
) -> None:
    """
    Train a drafter on collected rollouts, with the spot trainers' code.

    Prints an estimate of the duration first. One prompt in eight is held out for scoring. The last line on stdout is
    JSON: per draft, the share that is the policy's most likely token and the share that is accepted when sampled; the
    expected tokens per round of a chain of three drafts at temperature 1; the share of the responses' tokens that the
    drafter's head covers; and the training curve, with points of states trained on, seconds and accept length. `tlt up
    --drafter DIR` starts with the result; if it is not an EAGLE drafter, also pass `--set
    worker.engine.drafter_architecture=KIND`.
    """
    from tlt_trainer.offline.beginning import WantedDrafter
    from tlt_trainer.offline.commands import train_to
    from tlt_trainer.offline.course import Progress

    def report(now: Progress) -> None:
        scored = ""
        if now.score is not None:
            shares = " ".join(f"{share:.3f}" for share in now.score.accepted)
            scored = f"; held out: accept length {now.score.accept_length:.3f}, accepted {shares}"
        typer.echo(
            f"epoch {now.epoch} of {epochs}: {now.tokens:,} of {now.total_tokens:,} states, loss {now.loss:.3f}, "
            f"{now.left_s / 60:.0f} minutes left{scored}",
            err=True,
        )

    found = train_to(
        model,
        data,
        to,
        WantedDrafter(begin=begin, kind=kind, layers=layers, draft_vocabulary=draft_vocabulary),
        work=work,
        passes=passes,
        epochs=epochs,
        seed=seed,
        device=device,
        say=lambda line: typer.echo(line, err=True),
        report=report,
    )
    typer.echo(json.dumps(found))


@app.command()
def evaluate(
    source: Annotated[str, typer.Argument(metavar="PATH|URL", help="A drafter, or a directory of published ones.")],
    model: Model,
    data: Data,
    drafts: Annotated[int, typer.Option(min=1, max=16, help="Number of drafts per round.")] = 3,
    temperature: Annotated[
        float, typer.Option(min=0.01, help="Temperature at which responses and drafts are sampled.")
    ] = 1.0,
    device: Device = "auto",
) -> None:
    """
    Score a drafter on collected rollouts.

    Prints JSON: per draft, the share that is the policy's most likely token and the share that is accepted when
    sampled; the expected tokens per round of a chain; and the share of the responses' tokens that the drafter's head
    covers.
    """
    from tlt_trainer.offline import commands

    typer.echo(
        json.dumps(commands.evaluate(source, model, data, drafts=drafts, device=device, temperature=temperature))
    )
