"""Just enough of PromQL to compare it with what the services export."""

import re
from collections.abc import Iterator

from prometheus_client import REGISTRY, Counter, Gauge, Histogram
from prometheus_client.metrics import MetricWrapperBase

from tlt_common.telemetry import metrics

TARGET_LABELS = {"namespace", "release", "pod", "container"}
"""Put on by whoever scrapes."""
STANDARD = {name: frozenset[str]() for name in ("process_resident_memory_bytes", "process_cpu_seconds_total")}
STANDARD["process_start_time_seconds"] = frozenset()
FUNCTIONS_OF_COUNTERS = ("rate(", "increase(", "resets(")

_NAME = re.compile(r"\b(?:tlt|process)_\w+")
_SERIES = re.compile(r"\b((?:tlt|process)_\w+)\s*(?:\{([^}]*)\})?")


def exported() -> dict[str, frozenset[str]]:
    """Names of all series as they are scraped, with their labels."""
    assert metrics
    found = dict(STANDARD)
    for metric in {id(metric): metric for metric in REGISTRY._names_to_collectors.values()}.values():
        if isinstance(metric, MetricWrapperBase) and metric._name.startswith("tlt_"):
            labels = frozenset(metric._labelnames)
            match metric:
                case Counter():
                    found[f"{metric._name}_total"] = labels
                case Gauge():
                    found[metric._name] = labels
                case Histogram():
                    found |= {f"{metric._name}_{part}": labels for part in ("sum", "count")}
                    found[f"{metric._name}_bucket"] = labels | {"le"}
    return found


def series(expr: str) -> Iterator[tuple[str, frozenset[str]]]:
    """Every series an expression names, with the labels it is selected by."""
    for name, matchers in _SERIES.findall(expr):
        yield name, frozenset(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers or ""))


def grouped(expr: str) -> set[str]:
    """Labels that it sums or matches by."""
    lists = re.findall(r"\b(?:by|on|without|ignoring)\s*\(([^)]*)\)", expr)
    return {label.strip() for found in lists for label in found.split(",") if label.strip()}


def bare_counters(expr: str) -> list[str]:
    """Counters that are read without asking how they grew: such a value depends on when a process began."""
    found = []
    for match in _NAME.finditer(expr):
        is_counter = match[0].endswith(("_total", "_bucket", "_sum", "_count"))
        if is_counter and not expr[: match.start()].endswith(FUNCTIONS_OF_COUNTERS):
            found.append(match[0])
    return found
