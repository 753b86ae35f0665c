"""Formats numbers for people."""

from collections.abc import Callable

_DURATIONS = ((1e-6, 1e-9, "ns"), (1e-3, 1e-6, "µs"), (1.0, 1e-3, "ms"), (120.0, 1.0, "s"), (7200.0, 60.0, "min"),
              (172_800.0, 3600.0, "h"))  # fmt: skip
"""Durations below the first are given in the unit that follows; longer ones in days."""
_UNITS = {"learn_tokens_s": "tokens/s", "learn_half_tokens": "tokens", "state_bytes": "bytes"}
"""Of figures whose name does not end in `_s`, or ends so for another reason; others without `_s` have none."""


def three_digits(value: float) -> str:
    """Return a number with three significant digits and thousands separators."""
    if value == 0.0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def duration(seconds: float) -> str:
    """Return a duration in a suitable unit."""
    for below, unit_s, unit in _DURATIONS:
        if abs(seconds) < below:
            return f"{three_digits(seconds / unit_s)} {unit}" if seconds else "0 s"
    return f"{three_digits(seconds / 86_400)} days"


def in_one_unit(most_s: float) -> Callable[[float], str]:
    """Return a function that formats durations up to this many seconds in a common unit."""
    unit_s, unit = next(((size, unit) for below, size, unit in _DURATIONS if most_s < below), (86_400.0, "days"))
    return lambda seconds: f"{three_digits(seconds / unit_s)} {unit}"


def figure_text(name: str, value: float) -> str:
    """Return a number of the cost model with its unit, under its name there."""
    name = name.rpartition(".")[2]
    if unit := _UNITS.get(name):
        return f"{three_digits(value)} {unit}"
    return duration(value) if name.endswith("_s") else three_digits(value)


def times(ratio: float) -> str:
    """Return a speedup as text."""
    return f"{ratio:.2f}x"


def span(low: float, high: float) -> str:
    """Return an interval of speedups as text."""
    return f"{low:.2f} to {high:.2f}"


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return a count with its noun."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"
