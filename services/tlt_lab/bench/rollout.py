"""`tlt bench rollout`: the demo's run, whose every step answers its prompts on both sides."""

from pathlib import Path

from rich.console import Console

from tlt_lab.bench.result import Result
from tlt_lab.bench.scratch import scratch
from tlt_lab.demo.figures import figures
from tlt_lab.demo.main import recorded
from tlt_lab.demo.screen import Screen
from tlt_lab.demo.settings import QUICK, DemoSettings


def measure(*, quick: bool, keep: Path | None) -> Result:
    """Run and take the figures; progress goes to stderr."""
    from tlt_lab.demo.report import write_report

    settings = QUICK if quick else DemoSettings()
    with scratch() as passing:
        directory = keep or passing
        with Screen(Console(stderr=True, highlight=False, soft_wrap=True), settings) as screen:
            run = recorded(settings, directory, screen)
        if keep:
            write_report(run, keep)
    found = figures(run)
    return Result(
        name="rollout",
        figures={name: figure.median for name, figure in found.items()},
        spread={name: (figure.least, figure.most) for name, figure in found.items()},
        repeats=len(run.steps),
        notes={
            "step_speedup": "steps that began with a drafter; _all: every step, cold start included",
            **{
                f"greedy_difference_{i}": str(found)
                for i, found in enumerate(run.greedy.differences if run.greedy else ())
            },
        },
    )
