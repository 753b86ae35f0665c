"""Options of `tlt bench cache`. Imports no torch, so that --help stays fast."""

from typing import Annotated

import typer

from tlt_bench.options import Json


def cache(
    json: Json = "-",
    part: Annotated[list[str] | None, typer.Option(help="path or index; repeatable. Default: both.")] = None,
) -> None:
    """
    Measure the hidden-state cache, in about 5 minutes.

    Parts: bytes per second from a worker's sender through cache and Redis to a trainer, against a raw Redis; what one
    take reads of a large index.
    """
    from tlt_bench.cache.command import PARTS, measure
    from tlt_bench.engines.prepare import check_parts

    measure(tuple(check_parts(part or PARTS, PARTS))).write(json)
