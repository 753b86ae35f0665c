"""`tlt bench rollout`: a demo run, whose steps roll out their prompts on both sides with the same seeds."""

from dataclasses import replace
from pathlib import Path

from rich.console import Console

from countdown.figures import figures
from countdown.main import recorded
from countdown.record import Run
from countdown.screen import Screen
from countdown.settings import chosen
from tlt_bench.result import Result
from tlt_bench.scratch import scratch
from tlt_common.errors import TltError


def measure(*, quick: bool, warm: bool, no_tail: bool, keep: Path | None) -> Result:
    """
    Run the demo and return its figures. Progress goes to stderr.

    Raises:
        TltError: No step began with a drafter, so nothing was compared.
    """
    from countdown.report import write_report

    settings = chosen(quick=quick, warm=warm, no_tail=no_tail)
    with scratch() as temporary:
        directory = keep or temporary
        with Screen(Console(stderr=True, highlight=False, soft_wrap=True), settings) as screen:
            run = recorded(settings, directory, screen)
        if keep:
            write_report(run, keep)
    if not run.compared:
        raise TltError(
            f"none of {len(run.steps)} steps began with a drafter, so nothing was compared; use --keep for a report"
        )
    found = result(run)
    if not no_tail:
        return found
    return replace(
        found,
        figures={**found.figures, "no_tail_speedup": found.figures["step_speedup"]},
        spread={**found.spread, "no_tail_speedup": found.spread["step_speedup"]},
    )


def result(run: Run) -> Result:
    """Return the figures of a finished run."""
    found = figures(run)
    differences = {
        f"difference_step_{step.index}_{place}": str(difference)
        for step in run.compared
        for place, difference in enumerate(step.pairs.differences if step.pairs else ())
    }
    return Result(
        name="rollout",
        figures={name: figure.value for name, figure in found.items()},
        spread={name: (figure.low, figure.high) for name, figure in found.items()},
        repeats=len(run.compared),
        notes={
            "step_speedup": "off / on over paired responses, in steps that began with a drafter",
            "identical_responses": "share of paired responses that are identical token for token; spread over steps",
            "reward_on": "mean; the spread is its 95 % confidence interval, with prompts counted once",
            "first_swap_minute": "minutes from the start of the run to the first drafter trained in it",
            **differences,
        },
    )
