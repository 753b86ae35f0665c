"""The page that compares what the simulator calculates with what others have measured, row by row."""

from collections.abc import Iterator, Sequence

from reference.figures import runs
from reference.markdown import cell, table
from tlt_simulator.cases import case
from tlt_simulator.costs.compared import ComparedRow, Measured, errors_of

INTRODUCTION = """# How good the simulator is

For those who want to know how far a number of `tlt simulate` may be off, before they believe it.

Every published figure that was found is here, beside what [the costs](../costs.md) give for it; the worst first.
Those *held out* had no part in choosing any cost: every second speedup of a list sorted by source, divided before any
error was looked at. `tlt simulate cases --held-out` prints the same numbers. A speedup is calculated from the
published tokens per round, so that its error is that of rounds alone; how often drafts are accepted is a second
uncertainty, and as large.

None of this was measured with TLT on a GPU. The sources are of a few models on A100, H100 and B200; of mixtures of
experts there is one. A held-out row comes from the same sources as the fitted ones: expect more of a machine or an
engine that is not among them.
"""


WHOLE_RUNS = """## Whole runs

`tlt simulate --case paper` and `--case nemo-rl`: each with one calibration for all of its rows, and with 90 % intervals
of 12 draws. `tlt simulate cases NAME` says what was published and what is assumed. The paper's rows are not held out:
lengths, the share of rollouts and the engine's time for drafting were chosen for them. Of NeMo-RL's, only lengths were,
so that plain rollouts take as long as published. None of them is within its interval: there, each draft took about
0.6 plain rounds, as 3, 5 and 7 drafts tell, several times what drafts took in the runs that costs were fitted to. What
its authors projected for 235B is another simulator's answer.
[Simulations](sweeps.md) has ByteDance's run, recorded runs and the services.
"""


def page(rows: Sequence[ComparedRow]) -> str:
    """Return the page, of all rows."""
    sections = (part for kind in Measured for part in _section(kind, rows))
    return "\n".join([INTRODUCTION, *_summary(rows), WHOLE_RUNS, *_whole_runs(), *sections])


def _whole_runs() -> Iterator[str]:
    found = []
    for name in ("paper", "nemo-rl"):
        measured = runs()[f"simulate-case-{name}"]
        for row in case(name).rows:
            simulated, (low, high) = measured.figures[row.label], measured.spread[row.label]
            error = f"{simulated / row.published - 1.0:+.1%}"
            of = f"{name}: {row.label}"
            found.append((cell(of), f"{row.published:.2f}", f"{simulated:.2f}", f"{low:.2f} to {high:.2f}", error))
    yield table(("of", "published", "simulated", "90 % interval", "error"), found)


def _summary(rows: Sequence[ComparedRow]) -> Iterator[str]:
    found = []
    for measured in Measured:
        errors = errors_of([row for row in rows if row.measured is measured])
        within = "" if errors.coverage is None else f"{errors.coverage:.0%}"
        found.append((measured.value, str(errors.rows), f"{errors.mean:.1%}", f"{errors.worst:.1%}", within))
    yield table(("what", "figures", "mean error", "worst", "within the 90 % interval"), found)


def _section(measured: Measured, rows: Sequence[ComparedRow]) -> Iterator[str]:
    kept = [row for row in rows if row.measured is measured]
    sources = list(dict.fromkeys(row.source for row in kept))
    yield f"## {measured.value[0].upper()}{measured.value[1:]}\n"
    yield table(
        ("of", "published", "calculated", "90 % interval", "error", "source"),
        (
            (
                cell(row.what),
                f"{row.published:.2f}",
                f"{row.calculated:.2f}",
                f"{row.interval.low:.2f} to {row.interval.high:.2f}" if row.interval else "",
                f"{row.error:+.1%}",
                str(sources.index(row.source) + 1),
            )
            for row in kept
        ),
    )
    yield "".join(f"{number}. {source}\n" for number, source in enumerate(sources, start=1))
