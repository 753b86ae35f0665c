"""
`python -m grafana.draw URL DIRECTORY [MINUTES]`: render the dashboards as images, using Prometheus only.

For previewing a dashboard without Grafana. Renders what the JSON specifies: layout, titles, units, legends, thresholds.
"""

import math
import re
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import matplotlib as mpl
from grafana_foundation_sdk.models.dashboard import Dashboard, Panel
from matplotlib import pyplot as plt
from matplotlib.dates import DateFormatter
from matplotlib.ticker import MaxNLocator

from grafana.prometheus import Prometheus, Series
from grafana.units import format_value
from grafana.walk import substitute
from grafana.write import BOARDS

POINTS = 240
MIN_WINDOW_S = 15
INCH_PER_COLUMN, INCH_PER_LINE = 0.62, 0.32
GRAFANA = {
    "green": "#73bf69", "red": "#f2495c", "orange": "#ff9830", "blue": "#5794f2", "yellow": "#fade2a",
    "purple": "#b877d9", "text": "#ccccdc",
}  # fmt: skip
PALETTE = ("#73bf69", "#f2cc0c", "#8ab8ff", "#ff780a", "#f2495c", "#5794f2", "#b877d9", "#37872d", "#fade2a", "#705da0")
STYLE: Any = {
    "figure.facecolor": "#111217", "axes.facecolor": "#181b1f", "axes.edgecolor": "#2c3235", "text.color": "#ccccdc",
    "axes.labelcolor": "#ccccdc", "xtick.color": "#8e8e9a", "ytick.color": "#8e8e9a", "grid.color": "#2c3235",
    "axes.grid": True, "font.size": 7, "axes.titlesize": 8, "axes.titleweight": "bold", "axes.titlelocation": "left",
}  # fmt: skip


def draw(board: Dashboard, prometheus: Prometheus, picture: Path, *, begin_s: float, end_s: float) -> None:
    """Render a dashboard over a time range and save it to `picture`."""
    shown = list(board.panels or ())
    lines = max(panel.grid_pos.y + panel.grid_pos.h for panel in shown if panel.grid_pos)
    size = (24 * INCH_PER_COLUMN, lines * INCH_PER_LINE)
    with mpl.rc_context(STYLE):
        figure = plt.figure(figsize=size)
        for panel in shown:
            place = panel.grid_pos
            assert place is not None  # noqa: S101 - set by `board`
            left, bottom = place.x / 24, 1 - (place.y + place.h) / lines
            if isinstance(panel, Panel):
                box = (left + 0.032, bottom + 1.3 / lines, place.w / 24 - 0.04, (place.h - 2.4) / lines)
                _Drawing(figure.add_axes(box), panel, prometheus, begin_s, end_s).draw()
            else:
                figure.text(left + 0.004, bottom + 0.3 / lines, panel.title or "", fontsize=10, weight="bold")
        figure.savefig(picture, dpi=72)
        plt.close(figure)


class _Drawing:
    """One panel."""

    def __init__(self, axes: Any, panel: Panel, prometheus: Prometheus, begin_s: float, end_s: float) -> None:
        self._axes, self._panel, self._prometheus = axes, panel, prometheus
        self._begin_s, self._end_s = begin_s, end_s
        self._step_s = max(1.0, (end_s - begin_s) / POINTS)
        self._field = panel.field_config
        assert self._field is not None  # noqa: S101 - all our panels have a unit
        assert self._field.defaults is not None  # noqa: S101
        self._unit = self._field.defaults.unit or "none"

    def draw(self) -> None:
        self._axes.set_title(self._panel.title)
        found = [self._query(target) for target in self._panel.targets or ()]
        kind = {"stat": self._number, "state-timeline": self._bands, "heatmap": self._cells}
        kind.get(self._panel.type_val, self._lines)([line for lines in found for line in lines])

    def _query(self, target: Any) -> list[tuple[str, Series]]:
        window_s = max(MIN_WINDOW_S, int(4 * self._step_s))
        range_s = max(1, int(self._end_s - self._begin_s))  # Prometheus rejects an empty range
        expr = substitute(target.expr, range_s=range_s, window_s=window_s)
        if target.instant:
            answers = self._prometheus.at(expr, self._end_s)
        else:
            answers = self._prometheus.over(expr, self._begin_s, self._end_s, self._step_s)
        return [(_named(target.legend_format or "", series.labels), series) for series in answers]

    def _number(self, found: Sequence[tuple[str, Series]]) -> None:
        self._axes.axis("off")
        value = found[0][1].points[-1][1] if found else math.nan
        colour = "text"
        thresholds = self._field.defaults.thresholds if self._field and self._field.defaults else None
        for step in (thresholds.steps if thresholds else None) or ():
            if step.value is None or value >= step.value:
                colour = step.color
        text = "No data" if math.isnan(value) else format_value(value, self._unit)
        self._axes.text(0.5, 0.4, text, ha="center", va="center", fontsize=20, color=GRAFANA[colour])

    def _lines(self, found: Sequence[tuple[str, Series]]) -> None:
        colours = self._colours([name for name, _ in found])
        custom: Any = self._field.defaults.custom if self._field and self._field.defaults else None
        stacked = bool(custom and custom.stacking and custom.stacking.mode == "normal")
        if stacked and found:
            times = sorted({at for _, series in found for at, _ in series.points})
            rows = [[dict(series.points).get(at, 0.0) for at in times] for _, series in found]
            names = [name for name, _ in found]
            self._axes.stackplot([_time(at) for at in times], rows, labels=names, colors=colours, alpha=0.75)
        else:
            for (name, series), colour in zip(found, colours, strict=True):
                points = [(_time(at), value) for at, value in series.points]
                self._axes.plot(*zip(*points, strict=True), label=name, color=colour, linewidth=1)
        self._over_time()
        self._axes.yaxis.set_major_formatter(lambda value, _: format_value(value, self._unit))
        limits = self._field.defaults if self._field else None
        if limits is not None:
            self._axes.set_ylim(bottom=limits.min_val, top=limits.max_val)
        if found:
            self._legend(min(6, len(found)))

    def _bands(self, found: Sequence[tuple[str, Series]]) -> None:
        mappings: Any = self._field.defaults.mappings if self._field and self._field.defaults else ()
        words = {int(number): result for number, result in mappings[0].options.items()}
        for row, (_, series) in enumerate(found):
            for at, value in series.points:
                colour = GRAFANA[words[int(value)].color]
                self._axes.broken_barh(
                    [(_time(at), _time(at + self._step_s) - _time(at))], (row - 0.42, 0.84), color=colour
                )
        self._axes.set_yticks(range(len(found)), [name for name, _ in found])
        self._axes.grid(visible=False)
        for result in words.values():
            self._axes.plot([], [], color=GRAFANA[result.color], label=result.text, linewidth=4)
        self._over_time()
        self._legend(len(words))

    def _cells(self, found: Sequence[tuple[str, Series]]) -> None:
        ordered = sorted(found, key=lambda one: float(one[1].labels["le"]))
        times = sorted({at for _, series in ordered for at, _ in series.points})
        below = [0.0] * len(times)
        rows = []
        for _, series in ordered:
            values = dict(series.points)
            counts = [values.get(at, 0.0) for at in times]
            rows.append([max(0.0, count - less) for count, less in zip(counts, below, strict=True)])
            below = counts
        self._axes.pcolormesh([_time(at) for at in times], range(len(rows)), rows, cmap="inferno", shading="nearest")
        self._axes.set_yticks(range(len(rows)), [f"{float(series.labels['le']):g}" for _, series in ordered])
        self._over_time()

    def _colours(self, names: Sequence[str]) -> list[str]:
        fixed = {}
        for override in (self._field.overrides if self._field else None) or ():
            for change in override.properties:
                value: Any = change.value
                fixed[override.matcher.options] = GRAFANA[value["fixedColor"]]
        return [fixed.get(name, PALETTE[number % len(PALETTE)]) for number, name in enumerate(names)]

    def _over_time(self) -> None:
        self._axes.set_xlim(_time(self._begin_s), _time(self._end_s))
        self._axes.xaxis.set_major_formatter(DateFormatter("%H:%M:%S"))  # type: ignore[no-untyped-call] # untyped in matplotlib
        self._axes.xaxis.set_major_locator(MaxNLocator(6))

    def _legend(self, columns: int) -> None:
        self._axes.legend(
            loc="upper left", bbox_to_anchor=(0, -0.1), ncols=columns, frameon=False, fontsize=6, borderaxespad=0.2
        )


def _named(legend: str, labels: Mapping[str, str]) -> str:
    return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), legend) or "value"


def _time(at_s: float) -> datetime:
    return datetime.fromtimestamp(at_s, UTC)


def main(url: str, directory: str, minutes: str = "60") -> None:
    """Render all dashboards over the last `minutes`."""
    now_s, target = time.time(), Path(directory)
    target.mkdir(parents=True, exist_ok=True)
    for name, make in BOARDS.items():
        draw(make(), Prometheus(url), target / f"{name}.png", begin_s=now_s - 60 * float(minutes), end_s=now_s)


if __name__ == "__main__":
    main(*sys.argv[1:])
