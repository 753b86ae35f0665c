"""`tlt bench`. Progress goes to stderr; the last line on stdout is one JSON object."""

from pathlib import Path
from typing import Annotated

import typer

from tlt_bench.adapt.cli import adapt
from tlt_bench.arms.cli import engine, rounds, switch, trace
from tlt_bench.cache.cli import cache
from tlt_bench.capture.cli import capture
from tlt_bench.lease.cli import lease
from tlt_bench.options import Json
from tlt_bench.simulate.cli import simulate
from tlt_bench.starts.cli import starts
from tlt_bench.train.cli import train
from tlt_bench.turns.cli import turns
from tlt_bench.weights.cli import weights

app = typer.Typer(
    help="Measure the project's performance claims, each against its baseline in the same run.", no_args_is_help=True
)


@app.callback()
def bench() -> None:
    """Measure the project's performance claims, each against its baseline in the same run."""


@app.command()
def rollout(
    json: Json = "-",
    quick: Annotated[
        bool, typer.Option("--quick", help="Run fewer steps, from the shipped drafter: under 4 minutes on 2 cores.")
    ] = False,
    warm: Annotated[bool, typer.Option("--warm", help="Start from the shipped drafter.")] = False,
    no_tail: Annotated[
        bool, typer.Option("--no-tail", help="Give all responses the same length, and compare from the first step.")
    ] = False,
    shallow: Annotated[
        bool,
        typer.Option("--shallow", help="Serve the policy's four layers as they are, without the 20 that add nothing."),
    ] = False,
    model: Annotated[
        str | None, typer.Option(help="smollm2: the run of `tlt demo-real`, half an hour. Default: the demo's policy.")
    ] = None,
    drafter: Annotated[
        str | None,
        typer.Option(metavar="DIR|none", help="With --model: drafter to start with. Default: the shipped one."),
    ] = None,
    asynchronous: Annotated[
        bool,
        typer.Option(
            "--async",
            help="Run TRL's asynchronous trainer, which never drains the fleet, with TLT on and off in turns. Takes 25 "
            "minutes.",
        ),
    ] = False,
    packed: Annotated[
        bool,
        typer.Option(
            "--packed",
            help="With --async: compare all requests packed on one of two workers, while the other trains "
            "drafters, with the defaults.",
        ),
    ] = False,
    minutes: Annotated[
        float | None,
        typer.Option(
            min=1,
            help="Length of the run, start-up included; with --async, measured minutes of each side. Default: the "
            "demo's; 10.",
        ),
    ] = None,
    keep: Annotated[Path | None, typer.Option(help="Keep run.json and report.html in this directory.")] = None,
) -> None:
    """
    Compare rollouts with TLT on and off. Takes about 15 minutes.

    Both sides use the same seeds. Reports identical responses, step and tail speedup, accept length, use of idle time
    and the minute of the first drafter swap.
    """
    from tlt_bench.rollout import measure

    found = measure(
        quick=quick,
        warm=warm,
        no_tail=no_tail,
        shallow=shallow,
        model=model,
        drafter=drafter,
        asynchronous=asynchronous,
        packed=packed,
        minutes=minutes,
        keep=keep,
    )
    found.write(json)


@app.command()
def gateway(
    json: Json = "-",
    http: Annotated[bool, typer.Option("--http", help="Measure HTTP against gRPC at one gateway instead.")] = False,
) -> None:
    """
    Measure the gateway against a bare gRPC server that sends the same responses. Takes about two minutes.

    Reports requests per second, the CPU time of paced responses, the added latency of a response, and the cost of
    choosing a worker in fleets of 8 to 10,240.
    """
    from tlt_bench.gateway import http_measure, measure

    (http_measure.measure() if http else measure.measure()).write(json)


@app.command()
def load(
    json: Json = "-",
    streams: Annotated[int, typer.Option(min=1, max=16000, help="Responses open at a time.")] = 10_000,
    minutes: Annotated[
        float | None,
        typer.Option(
            min=0.5,
            help="Measure for so many minutes what gateways and coordinator keep instead: the slope of their memory "
            "per million responses and per thousand connections.",
        ),
    ] = None,
) -> None:
    """
    Load a gateway with open streams, a full queue and a slow reader. Takes about three minutes.

    Reports the gateway's memory, and the latency for a second caller in each situation.
    """
    from tlt_bench.gateway import load as situations
    from tlt_bench.soak import measure as soak

    (situations.measure(streams) if minutes is None else soak.measure(minutes)).write(json)


@app.command()
def tuner(
    json: Json = "-",
    trace: Annotated[
        Path | None, typer.Option(help="Recorded rounds. Default: the trace shipped with the package.")
    ] = None,
) -> None:
    """Measure the cost of a bandit decision, and its regret on recorded rounds. Takes 1 minute."""
    from tlt_bench.tuner import measure

    measure(trace).write(json)


@app.command()
def control(
    json: Json = "-",
) -> None:
    """
    Measure the coordinator under 128, 1,024 and 10,240 simulated workers: decisions, CPU and memory. Takes 3 minutes.

    Every worker has its own gRPC stream, in another process.
    """
    from tlt_bench.control.command import measure

    measure().write(json)


@app.command()
def gpu(
    json: Json = "-",
    keep: Annotated[
        Path, typer.Option(help="Directory of outcomes, logs and the table README.md. Parts that passed are kept.")
    ] = Path("reports/gpu"),
    models: Annotated[
        Path | None,
        typer.Option(help="Directory of models with random weights, up to 77 GiB. Default: models in --keep."),
    ] = None,
    part: Annotated[
        list[str] | None, typer.Option(help="Run only these parts, and those they need; repeatable. Default: all.")
    ] = None,
) -> None:
    """
    Run all checks that need a GPU, in parts of at most 8 minutes each. Run it from a checkout.

    Covers correctness, failures, losslessness, memory, speed against SGLang's own speculation, switches and the demo;
    ends with a page that compares the figures to the paper's. If interrupted, the next call continues. Without a GPU,
    parts that need one are skipped by name, and the others run on the CPU, with reduced models. Exits with 1 if a part
    failed.
    """
    from tlt_bench.gpu.command import measure

    result, is_whole = measure(keep, part or (), models)
    result.write(json)
    if not is_whole:
        raise typer.Exit(1)


app.command()(engine)
app.command()(switch)
app.command()(rounds)
app.command()(trace)
app.command()(weights)
app.command()(train)
app.command()(turns)
app.command()(adapt)
app.command()(capture)
app.command()(simulate)


@app.command()
def campaign(
    json: Json = "-",
    size: Annotated[str, typer.Option(help="short (6 minutes on 2 cores), middle (10) or long (60).")] = "middle",
    part: Annotated[list[str] | None, typer.Option(help="kills, network or storage; repeatable. Default: all.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all random choices.")] = 0,
    keep: Annotated[
        Path | None, typer.Option(help="Keep logs here. Default: a temporary directory, kept if the campaign fails.")
    ] = None,
) -> None:
    """
    Kill, stop and disturb a running suite, and check that no response is lost or changed.

    Exits with 1 if a response was lost or changed, leases overlapped, a ledger has gaps, a process was not replaced or
    was left behind, or weights could not be updated at the end.
    """
    from tlt_bench.campaign.command import run

    if not run(json=json, size=size, parts=part, seed=seed, keep=keep):
        raise typer.Exit(1)


app.command()(lease)
app.command()(cache)
app.command()(starts)


if __name__ == "__main__":
    app()
