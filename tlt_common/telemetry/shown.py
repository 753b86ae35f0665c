"""Selects the metrics that a process exports: its own component's, and any others it has set."""

from collections.abc import Iterator

from prometheus_client import REGISTRY, CollectorRegistry, Metric

OWNERS = ("gateway", "worker", "cache", "trainer", "tuner")
"""Components whose metrics are prefixed with their name."""
SHARED = ("tlt_build_", "tlt_journal_", "tlt_optional_", "tlt_rpc_", "tlt_tls_")


class Shown(CollectorRegistry):
    """
    The metrics of one component. One module declares all metrics, so every process has them all.

    Without this filter, gauges that a process never sets would read 0, as if no worker were ready or the store were
    down.
    """

    def __init__(self, component: str) -> None:
        super().__init__()
        self._component = component

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics that this process exports."""
        for family in REGISTRY.collect():
            if owner(family.name) in {None, self._component} or _was_set(family):
                yield family


def owner(name: str) -> str | None:
    """Return the component that owns a metric, or None if every process exports it."""
    if not name.startswith("tlt_") or name.startswith(SHARED):
        return None
    return next((part for part in OWNERS if name.startswith(f"tlt_{part}_")), "coordinator")


def _was_set(family: Metric) -> bool:
    return any(sample.value for sample in family.samples if not sample.name.endswith("_created"))
