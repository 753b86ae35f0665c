"""Options of the benchmarks of one engine's arms. Imports no torch, so that --help stays fast."""

from pathlib import Path
from typing import Annotated

import typer

from tlt_bench.options import AcceptLength, Device, DrafterOf, Json, Model


def engine(
    json: Json = "-",
    quick: Annotated[bool, typer.Option("--quick", help="Run fewer repeats: about 8 minutes on 2 cores.")] = False,
    device: Device = "auto",
    model: Model = None,
    drafter: DrafterOf = None,
    accept_length: AcceptLength = None,
    accept_lengths: Annotated[
        Path | None,
        typer.Option(
            "--accept-lengths",
            help="Result of the part grid with a trained drafter; grid calculates speeds with its lengths.",
        ),
    ] = None,
    part: Annotated[
        list[str] | None,
        typer.Option(help="off, speed, adaptive, ngram, batches, stock or grid; repeatable. Default: the first four."),
    ] = None,
    temperature: Annotated[
        float, typer.Option(min=0.05, max=2.0, help="Sampling temperature of responses, except those that are greedy.")
    ] = 1.0,
) -> None:
    """
    Measure the cost and speedup of the engine's arms, in about 25 minutes on 2 idle cores.

    Parts: off compared to an engine without speculation; every arm compared to off; sampled drafts compared to the
    drafter's most likely tokens; the bandit compared to fixed arms in rollouts with a tail; retrieval in groups of 8.
    batches: the bandit and its arms compared to off by batch size; also with --drafter none. stock: arms compared to
    SGLang's own speculation with the same drafter. grid: cost of a round of each arm, in rounds of off.
    """
    from tlt_bench.arms.engine import DEFAULT_PARTS, PARTS, measure
    from tlt_bench.arms.grid import accept_lengths_in
    from tlt_bench.engines.prepare import BenchTarget, check_parts

    target = BenchTarget(device=device, model=model, drafter=drafter, accept_length=accept_length)
    lengths = accept_lengths_in(accept_lengths) if accept_lengths else None
    chosen = check_parts(part or DEFAULT_PARTS, PARTS)
    measure(target, quick=quick, parts=chosen, accept_lengths=lengths, temperature=temperature).write(json)


def switch(
    json: Json = "-",
    quick: Annotated[bool, typer.Option("--quick", help="Run fewer repeats: under 3 minutes on 2 idle cores.")] = False,
    device: Device = "auto",
    model: Model = None,
    drafter: DrafterOf = None,
    accept_length: AcceptLength = None,
) -> None:
    """
    Measure lost rounds and recomputed tokens when speculation is switched with requests in flight.

    Takes 5 minutes.
    """
    from tlt_bench.arms.switch import measure
    from tlt_bench.engines.prepare import BenchTarget

    target = BenchTarget(device=device, model=model, drafter=drafter, accept_length=accept_length)
    measure(target, quick=quick).write(json)


def rounds(
    json: Json = "-",
) -> None:
    """
    Run the scheduler loop of GPUs on a CPU, and count where its rounds would wait for the device. Takes 2 minutes.

    Also compares captured hidden states to transformers', row by row.
    """
    from tlt_bench.arms.rounds import measure

    measure().write(json)


def trace(
    to: Annotated[Path, typer.Argument(help="File for the rounds; an existing file is replaced.")],
    arms: Annotated[
        str, typer.Option("--arms", help="Comma-separated names. Default: the arms of the shipped trace.")
    ] = "",
    quick: Annotated[
        bool, typer.Option("--quick", help="Two small rollouts, 2 minutes; too little data for most replays.")
    ] = False,
    device: Device = "auto",
    model: Model = None,
    drafter: DrafterOf = None,
) -> None:
    """
    Record rounds of randomly drawn arms, for `tlt bench tuner --trace`. Takes about 5 minutes.

    A serving engine tries other arms only when its bandit explores, so a replay of its own trace has little data
    on them.
    """
    from tlt_bench.arms.recording import record
    from tlt_bench.engines.prepare import BenchTarget
    from tlt_bench.tuner import TEN_ARMS
    from tlt_common.domain.arm import arms_named
    from tlt_common.errors import ConfigError
    from tlt_worker.engine.launch import require_writable

    try:
        chosen = arms_named(arms.split(",")) if arms else TEN_ARMS
    except ValueError as error:
        raise ConfigError(f"--arms: {error}", field="arms") from error
    require_writable(to)
    record(to, [arm.name for arm in chosen], BenchTarget(device=device, model=model, drafter=drafter), quick=quick)
