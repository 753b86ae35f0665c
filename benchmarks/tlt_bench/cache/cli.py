"""`tlt bench cache`. Imports no torch before it runs, so that --help stays fast."""

from typing import Annotated

import typer

from tlt_bench.options import Json

PARTS = ("path", "index")
REPEATS = 5


def cache(
    json: Json = "-",
    part: Annotated[list[str] | None, typer.Option(help="path or index; repeatable. Default: both.")] = None,
) -> None:
    """
    Measure the hidden-state cache. Takes about 5 minutes.

    Parts: bytes per second from a worker's sender through cache and Redis to a trainer, compared to a raw Redis; reads
    of one take from a large index.
    """
    from tlt_bench.cache import index, path
    from tlt_bench.engines.prepare import check_parts
    from tlt_bench.ratios import Figures

    parts, found = check_parts(part or PARTS, PARTS), Figures()
    if "path" in parts:
        found.merge(path.measure(repeats=REPEATS))
    if "index" in parts:
        found.merge(index.measure())
    found.result("cache", repeats=REPEATS).write(json)
