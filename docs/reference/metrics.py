"""docs/metrics.md: every metric, from the module that declares them."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from reference.markdown import cell, table

KINDS = ("Counter", "Gauge", "Histogram")
INTRODUCTION = """# Metrics

For operators: every metric and what it counts.

Each service exports Prometheus metrics at `/metrics` of its `metrics_port` ([configuration](configuration.md)).
`tlt up` prints the addresses. A process exports only the metrics of its own part. A histogram has the series `_bucket`,
`_sum` and `_count`. Dashboards and alerts of the chart use these names ([Kubernetes](kubernetes.md)).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One declaration."""

    name: str
    kind: str
    meaning: str
    labels: tuple[str, ...]


def page(source: Path) -> str:
    """One table, in the order of the source."""
    rows = (
        (f"`{metric.name}`", metric.kind, ", ".join(f"`{label}`" for label in metric.labels), cell(metric.meaning))
        for metric in declared(source)
    )
    return "\n".join((INTRODUCTION, table(("metric", "type", "labels", "meaning"), rows)))


def declared(source: Path) -> Iterator[Metric]:
    """Read `NAME = Counter("name", "meaning", ["label"])` and the like; a counter is exported with `_total`."""
    for node in ast.parse(source.read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            call = node.value
            if isinstance(call.func, ast.Name) and call.func.id in KINDS:
                name, meaning, *labels = (ast.literal_eval(argument) for argument in call.args)
                yield Metric(
                    name=f"{name}_total" if call.func.id == "Counter" else name,
                    kind=call.func.id.lower(),
                    meaning=meaning,
                    labels=tuple(labels[0]) if labels else (),
                )
