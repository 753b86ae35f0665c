"""The part `storage`."""

import time
from dataclasses import replace
from functools import partial

from tlt_bench.campaign.part import Context, Outcome, Part, Size
from tlt_bench.campaign.storage.local import local_storage
from tlt_bench.campaign.storage.remote import remote_storage
from tlt_bench.campaign.suite.faults import one_by_one

CALM_S = 4.0
"""Seconds between two faults, in which trainers may publish and write checkpoints."""
LEAST = {Size.SHORT: 6, Size.MIDDLE: 12, Size.LONG: 60}
"""Faults of each suite to make at least."""
LONGEST = "update_s_max"


async def run(context: Context) -> Outcome:
    """
    Make the storage of two suites fail in every way, under load and weight updates: one on disks, one on S3.

    Raises:
        TltError: A suite did not start, or failed as a whole.
    """
    half_s = time.monotonic() + context.left_s / 2
    local = replace(context, directory=context.directory / "local", deadline_s=half_s)
    remote = replace(context, directory=context.directory / "remote")
    fail = partial(one_by_one, least=LEAST[context.size], calm_s=CALM_S)
    return both(await fail(local, local_storage(local)), await fail(remote, remote_storage(remote)))


def both(first: Outcome, second: Outcome) -> Outcome:
    """Return the combined outcome of two suites."""
    figures = {name: value + second.figures[name] for name, value in first.figures.items()}
    figures[LONGEST] = max(first.figures[LONGEST], second.figures[LONGEST])
    return Outcome(figures=figures, findings=first.findings + second.findings)


PART = Part(
    name="storage",
    summary="make Redis, disks and an object store fail, and set the clock, under load",
    weight=2.0,
    run=run,
)
