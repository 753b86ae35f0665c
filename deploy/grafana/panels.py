"""Panel types with a common style."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from grafana_foundation_sdk.builders import common, dashboard, heatmap, prometheus, stat, statetimeline, timeseries
from grafana_foundation_sdk.models import common as look
from grafana_foundation_sdk.models.dashboard import (
    DataSourceRef,
    DynamicConfigValue,
    FieldColorModeId,
    Threshold,
    ThresholdsMode,
    ValueMap,
    ValueMappingResult,
)
from grafana_foundation_sdk.models.heatmap import HeatmapColorMode
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
GOOD, FAIR, BAD, PLAIN = "green", "orange", "red", "text"

Panel = TypeVar("Panel", stat.Panel, timeseries.Panel, statetimeline.Panel, heatmap.Panel)
Steps = Sequence[tuple[float | None, str]]
"""Thresholds: each color applies from its value upwards; the first has no value and is the base color."""


@dataclass(frozen=True, slots=True)
class Query:
    """A PromQL expression and its legend, with `{{label}}` placeholders."""

    expr: str
    legend: str = ""


def value(
    title: str, help_text: str, unit: str, expr: str, *, steps: Steps = ((None, PLAIN),), width: int = 4
) -> stat.Panel:
    """Return a panel with one number over the whole time range. `help_text` says how to act on it."""
    panel = stat.Panel().color_mode(look.BigValueColorMode.VALUE).graph_mode(look.BigValueGraphMode.NONE)
    panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"])).thresholds(_thresholds(steps))
    panel.with_target(_target(Query(expr), "A").instant())
    return _framed(panel, title, help_text, unit, width=width, height=4)


def series(
    title: str,
    help_text: str,
    unit: str,
    *queries: Query,
    stacked: bool = False,
    colors: Mapping[str, str] | None = None,
    y_min: float | None = 0.0,
    y_max: float | None = None,
    width: int = 12,
) -> timeseries.Panel:
    """Return a panel with lines over time, stacked if they are parts of a whole. None as a limit: automatic."""
    panel = timeseries.Panel().line_width(1).show_points(look.VisibilityMode.NEVER)
    panel.fill_opacity(60 if stacked else 8)
    panel.tooltip(common.VizTooltipOptions().mode(look.TooltipDisplayMode.MULTI).sort(look.SortOrder.DESCENDING))
    legend = common.VizLegendOptions().show_legend(True).placement(look.LegendPlacement.BOTTOM)
    panel.legend(legend.display_mode(look.LegendDisplayMode.LIST))
    if stacked:
        panel.stacking(common.StackingConfig().mode(look.StackingMode.NORMAL).group("A"))
    if y_min is not None:
        panel.min(y_min)
    if y_max is not None:
        panel.max(y_max)
    for name, color in (colors or {}).items():
        fixed = {"mode": FieldColorModeId.FIXED.value, "fixedColor": color}
        panel.override_by_name(name, [DynamicConfigValue(id_val="color", value=fixed)])
    for reference, query in zip("ABCDEFGH", queries, strict=False):
        panel.with_target(_target(query, reference))
    return _framed(panel, title, help_text, unit, width=width, height=8)


def states(
    title: str, help_text: str, query: Query, meanings: Mapping[int, tuple[str, str]], *, height: int = 8
) -> statetimeline.Panel:
    """Return a panel with one band per series; `meanings` maps each number to its label and color."""
    options = {
        str(number): ValueMappingResult(text=word, color=color, index=number)
        for number, (word, color) in meanings.items()
    }
    panel = statetimeline.Panel().merge_values(True).row_height(0.85).fill_opacity(85).line_width(0)
    panel.show_value(look.VisibilityMode.NEVER).mappings([ValueMap(options=options)])
    panel.legend(common.VizLegendOptions().show_legend(True).placement(look.LegendPlacement.BOTTOM))
    panel.with_target(_target(query, "A"))
    return _framed(panel, title, help_text, "none", width=24, height=height)


def spread(title: str, help_text: str, unit: str, expr: str, *, width: int = 12) -> heatmap.Panel:
    """Return a heatmap of a histogram's buckets over time."""
    panel = heatmap.Panel().calculate(calculate=False).y_axis(heatmap.YAxisConfig().unit(unit))
    panel.color(heatmap.HeatmapColorOptions().mode(HeatmapColorMode.SCHEME).scheme("Oranges").steps(64))
    panel.with_target(_target(Query(expr, "{{le}}"), "A").format(PromQueryFormat.HEATMAP))
    return _framed(panel, title, help_text, "short", width=width, height=8)


def _target(query: Query, reference: str) -> prometheus.Dataquery:
    target = prometheus.Dataquery().expr(query.expr).ref_id(reference)
    return target.legend_format(query.legend) if query.legend else target


def _thresholds(steps: Steps) -> dashboard.ThresholdsConfig:
    found = [Threshold(value=start, color=color) for start, color in steps]
    return dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(found)


def _framed(panel: Panel, title: str, help_text: str, unit: str, *, width: int, height: int) -> Panel:
    panel.title(title).description(help_text).unit(unit).datasource(SOURCE).span(width).height(height)
    return panel
