"""Options of `tlt bench weights`. Imports no torch, so that --help stays fast."""

from typing import Annotated

import typer

from tlt_bench.options import Json
from tlt_common.errors import ConfigError


def weights(
    json: Json = "-",
    megabytes: Annotated[int, typer.Option(min=32, help="Size of the weights; workers and gateway hold copies.")] = 512,
    repeats: Annotated[int, typer.Option(min=1, help="Updates per setup, after a first one.")] = 3,
    adapter: Annotated[
        bool, typer.Option("--adapter", help="Measure LoRA adapters against whole weights, instead.")
    ] = False,
    layers: Annotated[
        int, typer.Option(min=1, max=28, help="With --adapter: layers of the 7B shape. 28 need 64 GB of memory.")
    ] = 4,
    release: Annotated[
        bool,
        typer.Option(
            "--release", help="Measure 20 releases of the workers' memory, and the drafter after each, instead."
        ),
    ] = False,
) -> None:
    """
    Measure weight updates of 1, 2, 4 and 8 workers that share the gateway's spool, and of 1 and 8 that do not, against
    one raw copy of the same bytes: 5 minutes on 2 cores.

    With --adapter, a real engine serves random weights of the shape of Qwen2.5-7B, with fewer layers by default, and a
    trainer streams whole weights and adapters in turns; another one serves the demo's model, whose log-probabilities
    are compared with those under weights that PEFT merged: about 8 minutes on 2 cores. Needs peft.

    With --release, a real engine serves the demo's model with its shipped drafter, releases its memory, gets the same
    weights as a new version, resumes and rolls out, 20 times: about 5 minutes on 2 cores.
    """
    if adapter and release:
        raise ConfigError("--adapter and --release are given; accepted: one of them", field="release")
    if release:
        from tlt_bench.weights import released

        released.measure().write(json)
        return
    if adapter:
        from tlt_bench.weights import adapters

        adapters.measure(layers=layers, repeats=repeats).write(json)
        return
    from tlt_bench.weights.measure import measure

    measure(megabytes=megabytes, repeats=repeats).write(json)
