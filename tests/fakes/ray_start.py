"""The `ray start` command that KubeRay 1.7's operator builds from a group's parameters and container resources."""

import math
from typing import Any

Object = dict[str, Any]

METRICS, AGENT = 8080, 52365
# `ray start` flags that need an explicit "false"; other booleans are switches that are omitted if false.
SAID_BOOLEANS = {"log-color", "include-dashboard", "include-log-monitor"}
UNITS = {"m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


def quantity(amount: str | float) -> int:
    """Return a Kubernetes quantity as an integer, rounded up."""
    text = str(amount)
    unit = text.lstrip("0123456789.")
    return math.ceil(float(text[: len(text) - len(unit)]) * UNITS.get(unit, 1))


def start_command(kind: str, parameters: dict[str, str], resources: Object) -> str:
    """Return the `ray start` command of a node of this kind."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    found: dict[str, str] = {"metrics-export-port": str(METRICS), "dashboard-agent-listen-port": str(AGENT)}
    if cpus := limits.get("cpu", requests.get("cpu")):
        found["num-cpus"] = str(quantity(cpus))
    if memory := limits.get("memory"):
        found["memory"] = str(quantity(memory))
    for resource, amount in sorted(limits.items()):
        if resource.endswith("/gpu") and quantity(amount):
            found.setdefault("num-gpus", str(quantity(amount)))
    flags = [_flag(name, value) for name, value in sorted({**found, **parameters, "block": "true"}.items())]
    start = "ray start --head " if kind == "head" else "ray start "
    return start + " ".join(flag for flag in flags if flag)


def _flag(name: str, value: str) -> str:
    if value.lower() in {"true", "false"} and name not in SAID_BOOLEANS:
        return f"--{name}" if value.lower() == "true" else ""
    return f"--{name}={value}"
