"""
Replaces calculated costs with measured ones, as far as a benchmark determines them. Pure, except for reading files.

Each part of a round (launches, requests, weights, operations, the KV cache, passes of the drafter) is multiplied by a
factor that fits the measured rounds: least squares of relative errors, regularized towards 1 with the weight of `PRIOR`
rounds. A part that makes up less than `TOLD` of all measured rounds is not determined by them and stays as calculated.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tlt_simulator.costs.benchmarks import Benchmarks, MeasuredRound, benchmarks_in
from tlt_simulator.costs.figure import CostFigure, Source
from tlt_simulator.costs.model import CostModel
from tlt_simulator.costs.squares import Moments, added, solved

PRIOR: Final = 0.005
TOLD: Final = 0.1
LEAST_ERROR: Final = 0.02
"""Half the width of an interval at least, of its value: two runs of a benchmark differ as much."""
PARTS: Final = (
    ("round_fixed_s",),
    ("round_request_s",),
    ("round_read_s", "expert_read_s"),
    ("round_token_s",),
    ("kv_token_s",),
    ("draft_fixed_s", "draft_kv_token_s"),
    ("draft_token_s", "draft_step_s"),
    ("draft_round_s", "draft_request_s"),
    ("ngram_round_s", "ngram_request_s"),
)
"""Numbers that share a factor."""


def calibrated(costs: CostModel, path: Path) -> CostModel:
    """
    Return costs with calculated numbers replaced by measured ones.

    Args:
        costs: Costs of the measured machine and model.
        path: A file or directory that `benchmarks_in` reads.

    Raises:
        ConfigError: It is none of these; the message names file, line and field.
    """
    found = benchmarks_in(path)
    source = f"{', '.join(sorted(found.sources))}: {path.name}"
    changed = {
        name: _measured(value, 0.0, source) for name, value in found.figures.items() if name in type(costs).model_fields
    }
    return costs.model_copy(update={**_rounds(costs, found, source), **changed})


def _rounds(costs: CostModel, found: Benchmarks, source: str) -> dict[str, CostFigure]:
    if not found.rounds:
        return {}
    rows = [_parts(costs, one) for one in found.rounds]
    factors = _factors(rows, [one.seconds for one in found.rounds])
    error = max(
        abs(sum(part * factor for part, factor in zip(row, factors, strict=True)) / one.seconds - 1.0)
        for row, one in zip(rows, found.rounds, strict=True)
    )
    told = [max(row[place] / sum(row) for row in rows) >= TOLD for place in range(len(PARTS))]
    batches = ", ".join(f"{batch:.0f}" for batch in sorted({one.batch for one in found.rounds}))
    of = f"{source}; batch sizes {batches}"
    return {
        name: _measured(getattr(costs, name).value * factor, error, of)
        for names, factor, is_told in zip(PARTS, factors, told, strict=True)
        for name in names
        if is_told and getattr(costs, name).value
    }


def _factors(rows: Sequence[Sequence[float]], seconds: Sequence[float]) -> tuple[float, ...]:
    size = len(PARTS)
    moments = [
        Moments.of([part / measured for part in row], 1.0, 1.0) for row, measured in zip(rows, seconds, strict=True)
    ]
    priors = [Moments.of([float(place == other) for other in range(size)], 1.0, PRIOR) for place in range(size)]
    return solved(added([*moments, *priors]))[0]


def _parts(costs: CostModel, one: MeasuredRound) -> tuple[float, ...]:
    """Return the calculated seconds of each of `PARTS` in a round."""
    parts = costs.terms.parts(one.arm, one.batch, one.kv_tokens)
    return tuple(sum(parts[name] for name in names) for names in PARTS)


def _measured(value: float, error: float, of: str) -> CostFigure:
    spread = max(LEAST_ERROR, error)
    return CostFigure(
        value=value, low=value * max(0.0, 1.0 - spread), high=value * (1.0 + spread), source=Source.MEASURED, of=of
    )
