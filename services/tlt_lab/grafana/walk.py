"""What a dashboard asks, for those who check it or draw it without a Grafana."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from grafana_foundation_sdk.models.dashboard import Dashboard, Panel

DEFAULTS = {"namespace": ".*", "release": ".*", "gpu_hour": "2.50", "gpus_per_worker": "1"}
"""Variables as a reader finds them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One query of one panel."""

    board: str
    panel: str
    kind: str
    unit: str
    expr: str
    legend: str
    instant: bool


def panels(board: Dashboard) -> Iterator[Panel]:
    """Panels that show something, in order."""
    for panel in board.panels or ():
        if isinstance(panel, Panel):
            yield panel


def asked(board: Dashboard) -> Iterator[Asked]:
    """Every query."""
    for panel in panels(board):
        unit = panel.field_config.defaults.unit if panel.field_config and panel.field_config.defaults else None
        for target in panel.targets or ():
            query: Any = target
            yield Asked(
                board=board.title or "",
                panel=panel.title or "",
                kind=panel.type_val,
                unit=unit or "",
                expr=query.expr,
                legend=query.legend_format or "",
                instant=bool(query.instant),
            )


def substituted(expr: str, *, range_s: int, window_s: int, variables: Mapping[str, str] = DEFAULTS) -> str:
    """Put values in place of variables, as Grafana does before it asks."""
    values = {"__range": f"{range_s}s", "__rate_interval": f"{window_s}s", **variables}
    return re.sub(r"\$(\w+)", lambda found: values[found[1]], expr)
