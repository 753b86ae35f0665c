"""Output of `tlt simulate fit` as text and as JSON. Pure."""

from collections.abc import Iterator, Sequence
from typing import Any

from tlt_simulator.costs.figure import CostFigure
from tlt_simulator.fit.fitting import Fitted
from tlt_simulator.fit.held_out import HeldOut


def fitted_lines(fitted: Fitted, beyond: Sequence[str] = ()) -> Iterator[str]:
    """Yield a table of all numbers, then those that the fit does not determine."""
    rows = [
        ("", "value", "90 % interval", "source", "of"),
        *((name, *_numbers(figure), str(figure.source), figure.of) for name, figure in fitted.rows),
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    yield ""
    yield f"Rounds are {fitted.round_error:.1%} off on average."
    if fitted.drafter_tokens > 0.0:
        yield f"The run began with a drafter: simulate it with --drafter trained={fitted.drafter_tokens:.0f}."
    if fitted.assumed:
        yield f"Not in the journal: {', '.join(fitted.assumed)}."
    for what in beyond:
        yield f"Extrapolated: {what}."


def fitted_values(fitted: Fitted, beyond: Sequence[str] = ()) -> dict[str, Any]:
    """Return the same in JSON-compatible types."""
    return {
        "costs": {name: figure.model_dump(mode="json") for name, figure in fitted.rows},
        "fleet": fitted.fleet.model_dump(mode="json"),
        "drafter_tokens": fitted.drafter_tokens,
        "round_error": fitted.round_error,
        "drafters": [
            {"version": one.version, "policy": one.policy, "chance": one.chance, "requests": one.requests}
            for one in fitted.drafters
        ],
        "assumed": list(fitted.assumed),
        "extrapolated": list(beyond),
    }


def held_out_lines(found: HeldOut) -> Iterator[str]:
    """Yield the predicted steps and both errors."""
    yield "step  side     measured s  predicted s   error"
    for step in sorted(found.steps, key=lambda step: (step.number, not step.with_suite)):
        side = "with" if step.with_suite else "without"
        sign = step.predicted_s / step.measured_s - 1.0
        yield f"{step.number:4}  {side:7}  {step.measured_s:10.1f}  {step.predicted_s:11.1f}  {sign:+6.1%}"
    yield f"without / with: measured {found.measured_ratio:.2f}, predicted {found.predicted_ratio:.2f}"
    yield f"step_time_error {found.step_time_error:.3f}"
    yield f"ratio_error {found.ratio_error:.3f}"


def held_out_values(found: HeldOut) -> dict[str, Any]:
    """Return the same in JSON-compatible types."""
    return {
        "step_time_error": found.step_time_error,
        "ratio_error": found.ratio_error,
        "measured_ratio": found.measured_ratio,
        "predicted_ratio": found.predicted_ratio,
        "steps": [
            {
                "number": step.number,
                "with_suite": step.with_suite,
                "measured_s": step.measured_s,
                "predicted_s": step.predicted_s,
            }
            for step in found.steps
        ],
    }


def _numbers(figure: CostFigure) -> tuple[str, str]:
    return f"{figure.value:.4g}", f"{figure.least:.3g} to {figure.most:.3g}"
