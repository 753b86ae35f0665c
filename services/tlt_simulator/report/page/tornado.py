"""Tornado chart of the sensitivity: a bar per number from the result to its value at each end of the interval."""

from html import escape

from tlt_simulator.report.page.markup import behind, dot, figure, keys, table
from tlt_simulator.report.sensitivity import Sensitivity, Swing
from tlt_simulator.report.words import times


def tornado(found: Sensitivity) -> str:
    """Return the chart and the table behind it."""
    base = found.base.speedup
    speedups = [base, *(end for swing in found.swings for end in (swing.at_low.speedup, swing.at_high.speedup))]
    low, high = min(speedups), max(speedups)
    room = 0.04 * (high - low) or 0.1
    scale = _Scale(low - room, high + room)
    rows = "".join(_row(swing, base, scale) for swing in found.swings)
    described = f"What the speedup depends on, one thing at a time; without any change it is {times(base)}"
    legend = keys((dot("lower"), "at the lower end"), (dot("higher"), "at the higher end"))
    chart = f'<div class=tornado role=list aria-label="{escape(described)}">{rows}</div>'
    caption = (
        f"Speedup of the whole run. The line is the result with nothing changed, {times(base)}, simulated on "
        f"{escape(found.steps)}. Numbers of the cost model go from one end of their 90 % interval to the other."
    )
    return figure(legend + chart, caption) + behind(_table(found))


class _Scale:
    def __init__(self, low: float, high: float) -> None:
        self._low, self._length = low, high - low

    def of(self, value: float) -> float:
        return (value - self._low) / self._length


def _row(swing: Swing, base: float, scale: _Scale) -> str:
    ends = (("lower", swing.low, swing.at_low.speedup), ("higher", swing.high, swing.at_high.speedup))
    bars = "".join(_bar(kind, base, speedup, scale) for kind, _, speedup in ends)
    said = ", ".join(f"{escape(end)}: <b>{times(speedup)}</b>" for _, end, speedup in ends)
    return (
        f"<div class=swing role=listitem><div class=what>{escape(swing.what)}</div>"
        f'<div class=track aria-hidden=true>{bars}<i class=base style="left:{scale.of(base):.2%}"></i></div>'
        f"<div class=ends>{said}</div></div>"
    )


def _bar(kind: str, base: float, speedup: float, scale: _Scale) -> str:
    left, right = sorted((scale.of(base), scale.of(speedup)))
    return f'<i class="{kind}" style="left:{left:.2%};width:{right - left:.2%}"></i>'


def _table(found: Sensitivity) -> str:
    heads = ("what", "lower end", "speedup", "higher end", "speedup", "difference")
    rows = (
        (
            escape(swing.what),
            escape(swing.low),
            times(swing.at_low.speedup),
            escape(swing.high),
            times(swing.at_high.speedup),
            f"{swing.width:.2f}",
        )
        for swing in found.swings
    )
    return table(heads, rows)
