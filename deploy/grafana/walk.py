"""Panels and queries of a dashboard, for tests and for rendering without Grafana."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from grafana_foundation_sdk.models.dashboard import Dashboard, Panel

DEFAULTS = {"namespace": ".*", "release": ".*", "gpu_hour": "2.50"}
"""Default values of the dashboard variables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelQuery:
    """One query of one panel."""

    board: str
    panel: str
    kind: str
    unit: str
    expr: str
    legend: str
    instant: bool


def panels(board: Dashboard) -> Iterator[Panel]:
    """Yield the panels in order, without row headings."""
    for panel in board.panels or ():
        if isinstance(panel, Panel):
            yield panel


def queries_of(board: Dashboard) -> Iterator[PanelQuery]:
    """Yield every query."""
    for panel in panels(board):
        unit = panel.field_config.defaults.unit if panel.field_config and panel.field_config.defaults else None
        for target in panel.targets or ():
            query: Any = target
            yield PanelQuery(
                board=board.title or "",
                panel=panel.title or "",
                kind=panel.type_val,
                unit=unit or "",
                expr=query.expr,
                legend=query.legend_format or "",
                instant=bool(query.instant),
            )


def substitute(expr: str, *, range_s: int, window_s: int, variables: Mapping[str, str] = DEFAULTS) -> str:
    """Replace variables by their values, as Grafana does before it sends a query."""
    values = {"__range": f"{range_s}s", "__rate_interval": f"{window_s}s", **variables}
    return re.sub(r"\$(\w+)", lambda found: values[found[1]], expr)
