"""Options of `tlt bench bubble`."""

from typing import Annotated

import typer


def bubble(
    json: Annotated[str, typer.Option(metavar="PATH|-", help="Write the JSON object to this file; - is stdout.")] = "-",
    steady: Annotated[bool, typer.Option("--steady", help="Measure packing at steady load instead.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer repeats.")] = False,
) -> None:
    """
    Measure what idle devices are used for.

    With --steady, in virtual time and two minutes: requests of an asynchronous trainer at a quarter load, packed
    against the same requests spread, calculated for a 7B policy on H100s.
    """
    from tlt_bench.bubble.ledger import measure as measure_ledger
    from tlt_bench.bubble.steady import measure as measure_steady
    from tlt_bench.result import check_target

    check_target(json)
    (measure_steady if steady else measure_ledger)(quick=quick).write(json)
