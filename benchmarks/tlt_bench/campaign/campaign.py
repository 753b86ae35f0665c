"""Runs the parts in sequence and judges their figures."""

import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tlt_bench.campaign.figures import SHARED, combined
from tlt_bench.campaign.part import Context, Outcome, Part, Size
from tlt_bench.campaign.parts import share_s
from tlt_bench.result import Result
from tlt_common.errors import TltError


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Outcomes of all parts."""

    size: Size
    seed: int
    seconds: float
    outcomes: dict[str, Outcome]
    errors: dict[str, str]
    """Parts that failed to complete, with the reason."""

    @property
    def figures(self) -> dict[str, float]:
        """Combined figures of all parts."""
        return combined({name: outcome.figures for name, outcome in self.outcomes.items()})

    @property
    def violations(self) -> tuple[str, ...]:
        """Names of the violation counts that are not 0."""
        return tuple(name for name, figure in SHARED.items() if figure.must_hold and self.figures.get(name, 0) > 0)

    @property
    def is_passed(self) -> bool:
        """Whether every part completed without a violation, regardless of times and amounts of work."""
        return not self.violations and not self.errors

    def result(self) -> Result:
        """Return the report in the format of all benchmarks."""
        notes = {"size": str(self.size), "seed": str(self.seed), "seconds": f"{self.seconds:.0f}"}
        notes |= {f"{name}.skipped": one.skipped for name, one in self.outcomes.items() if one.skipped}
        notes |= {f"{name}.findings": "\n".join(one.findings) for name, one in self.outcomes.items() if one.findings}
        notes |= {f"{name}.error": error for name, error in self.errors.items()}
        return Result(name="campaign", figures=self.figures, spread={}, repeats=1, notes=notes)


async def run(parts: Sequence[Part], *, size: Size, seed: int, keep: Path | None, say: Callable[[str], None]) -> Report:
    """
    Run the parts. Time that a part does not use goes to the later ones.

    Args:
        parts: Parts, in this order.
        size: Size of the campaign.
        seed: Seed of all random choices.
        keep: Directory of the parts' files; None uses a temporary one, which is deleted if the campaign passes.
        say: Called with each line of progress.
    """
    began_s = time.monotonic()
    directory = keep or Path(tempfile.mkdtemp(prefix="tlt-campaign-"))
    outcomes: dict[str, Outcome] = {}
    errors: dict[str, str] = {}
    for place, part in enumerate(parts):
        left_s = began_s + size.seconds - time.monotonic()
        context = _context(part, directory, size, seed, share_s(part, parts[place + 1 :], left_s), say)
        say(f"{part.name}: {part.summary}; {context.left_s:.0f} s")
        try:
            outcomes[part.name] = await part.run(context)
        except* TltError as group:
            errors[part.name] = _first(group).message
            say(f"{part.name} failed: {errors[part.name]}")
    seconds = time.monotonic() - began_s
    report = Report(size=size, seed=seed, seconds=seconds, outcomes=outcomes, errors=errors)
    if keep is None and report.is_passed:
        shutil.rmtree(directory, ignore_errors=True)
    else:
        say(f"files of the parts: {directory}")
    return report


def _first(group: BaseExceptionGroup[TltError]) -> TltError:
    """Return the first error within an exception: a part that uses task groups raises groups."""
    found: TltError | BaseExceptionGroup[TltError] = group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found


def _context(part: Part, directory: Path, size: Size, seed: int, seconds: float, say: Callable[[str], None]) -> Context:
    own = directory / part.name
    own.mkdir(parents=True, exist_ok=True)
    return Context(
        directory=own,
        seed=seed,
        deadline_s=time.monotonic() + seconds,
        size=size,
        say=lambda line: say(f"{part.name}: {line}"),
    )
