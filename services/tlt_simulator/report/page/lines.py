"""Line charts over the steps of a run: SVG that scales with the page, with HTML labels that do not."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 1000, 1000
MAX_DOTS = 40
"""Steps up to which each has a dot."""
_TICKS = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartLine:
    """A line."""

    kind: str
    """Class of the style sheet: `with` or `without`."""
    name: str
    values: Sequence[float]
    """One value per step."""


def lines(description: str, found: Sequence[ChartLine], *, text: Callable[[float], str], least: float = 0.0) -> str:
    """
    Return a chart of values by step.

    Args:
        description: Text alternative for the picture.
        found: Lines of the same length.
        text: Formats a value.
        least: Lower end of the scale.
    """
    count = len(found[0].values)
    ticks = ticks_to(max(max(line.values) for line in found), least)
    most = ticks[-1]

    def place(step: int, value: float) -> tuple[float, float]:
        x = 0.5 if count == 1 else step / (count - 1)
        return x, (value - least) / (most - least)

    drawn = "".join(_line(line, place) for line in found)
    grid = "".join(
        f'<line x1=0 x2={WIDTH} y1="{y:.1f}" y2="{y:.1f}"/>' for y in (_y(place(0, tick)[1]) for tick in ticks)
    )
    dots = "".join(_dots(line, place, text) for line in found) if count <= MAX_DOTS else ""
    left = "".join(
        f'<span style="bottom:{place(0, tick)[1]:.2%}">{escape(text(tick))}</span>' for tick in ticks
    )  # fmt: skip
    below = "".join(
        f'<span style="left:{place(step - 1, least)[0]:.2%}">{step}</span>' for step in labelled(count)
    )  # fmt: skip
    return (
        f'<div class=chart role=img aria-label="{escape(description)}"><div class=left aria-hidden=true>{left}</div>'
        f'<div class=plot><svg viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio=none aria-hidden=true>{grid}{drawn}'
        f"</svg>{dots}</div><div class=below aria-hidden=true>{below}</div></div>"
    )


def ticks_to(most: float, least: float) -> list[float]:
    """Return three to six equidistant values from `least` to at least `most`."""
    length = most - least if most > least else 1.0
    size = 10.0 ** len(str(int(length))) if length >= 1 else 1.0
    while size > length:
        size /= 10.0
    step = next(size / 10 * part for part in (*_TICKS, 20.0, 25.0, 50.0) if size / 10 * part * 5 >= length)
    ticks = [least]
    while ticks[-1] < most - 1e-9 * length or len(ticks) < 2:
        ticks.append(least + step * len(ticks))
    return ticks


def labelled(count: int) -> list[int]:
    """Return the numbers of at most six steps, including the first and the last."""
    if count <= 6:
        return list(range(1, count + 1))
    return [1 + round(part * (count - 1) / 4) for part in range(5)]


def _line(line: ChartLine, place: Callable[[int, float], tuple[float, float]]) -> str:
    at = (place(step, value) for step, value in enumerate(line.values))
    points = " ".join(f"{WIDTH * x:.1f},{_y(y):.1f}" for x, y in at)
    return f'<polyline class="{line.kind}" points="{points}"/>'


def _dots(line: ChartLine, place: Callable[[int, float], tuple[float, float]], text: Callable[[float], str]) -> str:
    at = ((step, value, *place(step, value)) for step, value in enumerate(line.values))
    return "".join(
        f'<i class="dot {line.kind}" style="left:{x:.2%};bottom:{y:.2%}" '
        f'title="step {step + 1}, {escape(line.name)}: {escape(text(value))}"></i>'
        for step, value, x, y in at
    )


def _y(share: float) -> float:
    return HEIGHT * (1.0 - share)
