"""What is calculated beside what others have measured: rounds, speedups and accept lengths, one by one. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import fmean
from typing import Final

from tlt_common.domain.arm import OFF, arm_named
from tlt_simulator.costs import learning
from tlt_simulator.costs.model import CostModel
from tlt_simulator.costs.published import accept_lengths, speculation
from tlt_simulator.costs.published.rounds import PUBLISHED_ROUNDS, PUBLISHED_SHAPES, PublishedRound
from tlt_simulator.costs.published.speculation import PublishedSpeedup
from tlt_simulator.costs.roofline import ENGINES, ROUND_COSTS, costs_of
from tlt_simulator.costs.uncertainty import Range, drawn, range_of

DRAWS: Final = 48
"""Draws for the interval of a speedup."""


class Measured(StrEnum):
    """What was measured."""

    HELD_OUT = "speedups of drafting, held out"
    SPEEDUP = "speedups of drafting, fitted"
    ROUND = "milliseconds of a round without drafts, fitted"
    TREE = "tokens per round of trees, fitted"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRow:
    """A published number and the calculated one."""

    measured: Measured
    what: str
    published: float
    calculated: float
    interval: Range | None = None
    """90 % interval of the calculated one, where it has one."""
    source: str

    @property
    def error(self) -> float:
        """Relative error."""
        return self.calculated / self.published - 1.0

    @property
    def is_covered(self) -> bool:
        """Whether the published number is within the interval."""
        return self.interval is not None and self.interval.low <= self.published <= self.interval.high


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedErrors:
    """Errors of several rows."""

    rows: int
    mean: float
    worst: float
    coverage: float | None
    """Share of the published numbers within their intervals; None if none has one."""


def compared() -> tuple[ComparedRow, ...]:
    """Return all rows by kind, and within a kind the worst first."""
    order = list(Measured)
    return tuple(sorted(_rows(), key=lambda row: (order.index(row.measured), -abs(row.error))))


def errors_of(rows: Sequence[ComparedRow]) -> ComparedErrors:
    """Return the errors of some rows."""
    sizes = [abs(row.error) for row in rows]
    bounded = [row.is_covered for row in rows if row.interval is not None]
    return ComparedErrors(
        rows=len(rows), mean=fmean(sizes), worst=max(sizes), coverage=fmean(bounded) if bounded else None
    )


def _rows() -> Iterator[ComparedRow]:
    for measured, rows in (
        (Measured.HELD_OUT, speculation.held_out()),
        (Measured.SPEEDUP, speculation.fitted()),
    ):
        for row in rows:
            calculated, interval = _speedup(row)
            yield ComparedRow(
                measured=measured,
                what=row.name,
                published=row.speedup,
                calculated=calculated,
                interval=interval,
                source=row.source,
            )
    for one in PUBLISHED_ROUNDS:
        machine = one.card if one.gpus == 1 else f"{one.gpus} x {one.card}"
        yield ComparedRow(
            measured=Measured.ROUND,
            what=f"{one.model}, {machine}, {one.engine}, batch {one.batch}, {one.context} tokens",
            published=one.ms,
            calculated=_round_ms(one),
            source=one.source,
        )
    narrowing = CostModel.model_fields["tree_narrowing"].default.value
    for series in accept_lengths.ACCEPT_LENGTHS:
        for arm, length in accept_lengths.tree_lengths(series, learning.ACCEPT_DECAY.value, narrowing):
            yield ComparedRow(
                measured=Measured.TREE,
                what=f"{series.drafter}, {arm}",
                published=dict(series.trees)[arm],
                calculated=length,
                source=series.source,
            )


def _round_ms(row: PublishedRound) -> float:
    costs = costs_of(row.card, row.gpus, PUBLISHED_SHAPES[row.model], row.model, ENGINES[row.engine])
    return 1e3 * costs.terms.round_s(OFF, row.batch, row.batch * row.context)


def _speedup(row: PublishedSpeedup) -> tuple[float, Range]:
    """Return the speedup that is calculated for a published one, from its tokens per round, and its interval."""
    shape = PUBLISHED_SHAPES[row.model]
    shape = replace(shape, draft=replace(shape.drafter, head_rows=row.head))
    costs = costs_of(row.card, row.gpus, shape, row.model, ENGINES[row.engine])
    uncertain = [(name, figure) for name, figure in costs.figures() if name in ROUND_COSTS]
    names = [name for name, _ in uncertain]
    draws = [
        _ratio(costs.replaced(**dict(zip(names, values, strict=True))), row)
        for values in drawn(uncertain, DRAWS, seed=0)
    ]
    return _ratio(costs, row), range_of(draws)


def _ratio(costs: CostModel, row: PublishedSpeedup) -> float:
    kv_tokens = row.batch * row.context
    plain_s, drafting_s = (costs.terms.round_s(arm, row.batch, kv_tokens) for arm in (OFF, arm_named(row.arm)))
    return row.length * plain_s / drafting_s
