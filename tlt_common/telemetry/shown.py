"""What one process shows of all the metrics: its own, and what it set of others."""

from collections.abc import Iterator

from prometheus_client import REGISTRY, CollectorRegistry, Metric

OWNERS = ("gateway", "worker", "cache", "trainer", "tuner")
"""Parts whose metrics begin with their name."""
SHARED = ("tlt_build_", "tlt_rpc_", "tlt_tls_")


class Shown(CollectorRegistry):
    """
    The metrics of one component. All are declared in one module, so that every process has them all.

    A gauge nobody here sets would read 0: as if no worker were ready, or the store down.
    """

    def __init__(self, component: str) -> None:
        super().__init__()
        self._component = component

    def collect(self) -> Iterator[Metric]:
        """Everything that says something about this process."""
        for family in REGISTRY.collect():
            if owner(family.name) in {None, self._component} or _was_set(family):
                yield family


def owner(name: str) -> str | None:
    """Whose metric it is; None: everybody's."""
    if not name.startswith("tlt_") or name.startswith(SHARED):
        return None
    return next((part for part in OWNERS if name.startswith(f"tlt_{part}_")), "coordinator")


def _was_set(family: Metric) -> bool:
    return any(sample.value for sample in family.samples if not sample.name.endswith("_created"))
