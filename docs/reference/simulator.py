"""The page that compares what the simulator calculates with what others have measured, row by row."""

from collections.abc import Iterator, Sequence

from reference.markdown import cell, table
from tlt_simulator.costs.compared import ComparedRow, Measured, errors_of

INTRODUCTION = """# How good the simulator is

For those who want to know how far a number of `tlt simulate` may be off, before they believe it.

Every published figure that was found is here, beside what [the costs](../costs.md) give for it; the worst first.
Those *held out* had no part in choosing any cost: every second speedup of a list sorted by source, divided before any
error was looked at. `tlt simulate cases --held-out` prints the same numbers. A speedup is calculated from the
published tokens per round, so that its error is that of rounds alone; how often drafts are accepted is a second
uncertainty, and as large. Whole runs are compared in [Simulations](sweeps.md).

None of this was measured with TLT on a GPU. The sources are of a few models on A100, H100 and B200; of mixtures of
experts there is one. A held-out row comes from the same sources as the fitted ones: expect more of a machine or an
engine that is not among them.
"""


def page(rows: Sequence[ComparedRow]) -> str:
    """Return the page, of all rows."""
    return "\n".join([INTRODUCTION, *_summary(rows), *(part for kind in Measured for part in _section(kind, rows))])


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
