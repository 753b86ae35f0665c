"""`tlt bench turns`."""

from typing import Annotated

import typer

from tlt_bench.options import Json, Model


def turns(
    json: Json = "-",
    repeats: Annotated[int, typer.Option(min=1, help="Repeats per side, after a first one.")] = 5,
    prompt: Annotated[int, typer.Option(min=16, max=3500, help="Tokens of the first turn.")] = 2500,
    model: Model = None,
) -> None:
    """
    Measure conversations of 6 turns with a tool on 2 workers, with and without sessions. Takes 5 minutes on 2 cores.

    Reports the speedup, and the share of earlier tokens that were prefilled again. As in a trainer's tool loop, the
    next turns of all conversations are sent together, in the order in which the previous turns ended. Tokens are
    random.
    """
    from tlt_bench.turns.measure import measure
    from tlt_bench.turns.talk import Shape

    measure(repeats=repeats, shape=Shape(prompt=prompt), model=model).write(json)
