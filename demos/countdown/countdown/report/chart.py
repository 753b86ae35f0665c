"""Render matplotlib figures as inline SVG that inherits its colors and font from the page."""

import io
import re
from collections.abc import Callable
from html import escape
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from countdown.report.palette import INK, LINE, SHADES, SOFT, SURFACE

STYLE: Final[dict[Any, Any]] = {
    "svg.fonttype": "none",
    "font.size": 10.0,
    "text.color": INK,
    "axes.labelcolor": SOFT,
    "axes.edgecolor": LINE,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10.0,
    "axes.axisbelow": True,
    "xtick.color": LINE,
    "ytick.color": LINE,
    "xtick.labelcolor": SOFT,
    "ytick.labelcolor": SOFT,
    "grid.color": LINE,
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "legend.fontsize": 9.5,
    "figure.facecolor": "none",
    "patch.edgecolor": SURFACE,
    "hatch.color": SURFACE,
}

WIDTH_INCHES: Final = 9.6


def draw(name: str, description: str, height_inches: float, paint: Callable[[Figure], None]) -> str:
    """
    Call `paint` on a new figure and return it as an inline `<svg>`.

    Args:
        name: Unique in the page. Prefixes every id, because inline SVGs share one namespace.
        description: Text alternative for screen readers.
        height_inches: Height at a width of `WIDTH_INCHES`; the page scales both.
        paint: Called once, with the report's style applied.
    """
    with mpl.rc_context({**STYLE, "svg.hashsalt": name}):
        figure = Figure(figsize=(WIDTH_INCHES, height_inches), layout="constrained")
        paint(figure)
        raw = io.StringIO()
        figure.savefig(raw, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return _inline(raw.getvalue(), name, description)


def plain(axes: Axes, *, grid: str = "y") -> None:
    """Keep only a light grid along one axis ("x" or "y"), without tick marks."""
    axes.tick_params(length=0)
    axes.grid(visible=True, axis="y" if grid == "y" else "x")


def _inline(document: str, name: str, description: str) -> str:
    svg = document[document.index("<svg") :]
    svg = re.sub(r'\s(?:width|height)="[\d.]+pt"', "", svg, count=2)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'(href="|url\()#', rf"\g<1>#{name}-", svg)
    for variable, shade in SHADES.items():
        svg = svg.replace(shade.light, f"var(--{variable})")
    return svg.replace("<svg ", f'<svg role="img" aria-label="{escape(description)}" ', 1)
