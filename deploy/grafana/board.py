"""Frame shared by all dashboards: variables, links and rows of panels."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from grafana_foundation_sdk.builders import dashboard, heatmap, stat, statetimeline, timeseries
from grafana_foundation_sdk.models.dashboard import (
    Dashboard,
    DashboardLinkType,
    VariableOption,
    VariableRefresh,
    VariableSort,
)

from grafana.panels import SOURCE

TAG = "tlt"
COLUMNS = 24

AnyPanel: TypeAlias = stat.Panel | timeseries.Panel | statetimeline.Panel | heatmap.Panel


@dataclass(frozen=True, slots=True)
class Row:
    """Panels under one heading. Panel widths on a line add up to 24 columns."""

    title: str
    panels: Sequence[AnyPanel]


@dataclass(frozen=True, slots=True)
class Number:
    """A numeric variable the reader can change; panels refer to it as `$name`."""

    name: str
    label: str
    default: str
    help_text: str


def board(uid: str, title: str, help_text: str, rows: Sequence[Row], *, numbers: Sequence[Number] = ()) -> Dashboard:
    """Build a dashboard."""
    built = dashboard.Dashboard(title).uid(uid).description(help_text).tags([TAG]).readonly()
    built.time("now-3h", "now").refresh("30s").timezone("browser")
    for variable in (*_places(), *map(_textbox, numbers)):
        built.with_variable(variable)
    link = dashboard.DashboardLink("TLT").type(DashboardLinkType.DASHBOARDS).tags([TAG])
    built.link(link.as_dropdown(True).include_vars(True).keep_time(True))
    for row in rows:
        built.with_row(dashboard.Row(row.title))
        for panel in row.panels:
            built.with_panel(panel)
    found = built.build()
    for number, shown in enumerate(found.panels or (), start=1):
        shown.id_val = number  # links to a panel contain its id
    return found


def _places() -> tuple[dashboard.DatasourceVariable | dashboard.QueryVariable, ...]:
    source = dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus")
    return (
        source,
        _label("namespace", "Namespace", "tlt_build_info"),
        _label("release", "Release", 'tlt_build_info{namespace=~"$namespace"}'),
    )


def _label(name: str, label: str, where: str) -> dashboard.QueryVariable:
    variable = dashboard.QueryVariable(name).label(label).datasource(SOURCE).query(f"label_values({where}, {name})")
    variable.refresh(VariableRefresh.ON_TIME_RANGE_CHANGED).sort(VariableSort.ALPHABETICAL_ASC)
    # Without a monitor that adds the label, "All" is the only choice and must match series without it.
    return variable.include_all(True).all_value(".*").current(VariableOption(text="All", value="$__all"))


def _textbox(number: Number) -> dashboard.TextBoxVariable:
    variable = dashboard.TextBoxVariable(number.name).label(number.label).description(number.help_text)
    chosen = VariableOption(text=number.default, value=number.default)
    return variable.default_value(number.default).current(chosen).options([chosen])
