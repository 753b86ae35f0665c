"""Body of the command `tlt bench campaign`."""

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import typer
from rich.console import Console

from tlt_bench.campaign.campaign import run as run_parts
from tlt_bench.campaign.part import Size
from tlt_bench.campaign.parts import chosen
from tlt_bench.campaign.table import show
from tlt_common.errors import ConfigError

WIDTH = 150
"""Columns of the table, also in a log."""


def run(*, json: str, size: str, parts: Sequence[str] | None, seed: int, keep: Path | None) -> bool:
    """
    Run the campaign, print its table to stderr and write its result; return whether it passed.

    Raises:
        ConfigError: The size or a part is unknown.
    """
    try:
        wanted = Size(size)
    except ValueError:
        raise ConfigError(f"--size is {size!r}; accepted: {[str(one) for one in Size]}", field="size") from None
    say = partial(typer.echo, err=True)
    report = asyncio.run(run_parts(chosen(parts), size=wanted, seed=seed, keep=keep, say=say))
    show(report, Console(stderr=True, width=WIDTH, soft_wrap=True))
    report.result().write(json)
    return report.is_passed
