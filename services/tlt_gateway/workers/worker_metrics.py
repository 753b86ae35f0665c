"""Prometheus metrics of the workers' states."""

from collections import Counter
from collections.abc import Iterable

from tlt_common.telemetry import metrics
from tlt_gateway.workers.pooled_worker import PooledState, PooledWorker


def count_states(workers: Iterable[PooledWorker]) -> None:
    """Show how many workers are in each state."""
    counts = Counter(worker.state for worker in workers)
    for state in PooledState:
        metrics.GATEWAY_WORKERS.labels(state=state).set(counts[state])
    metrics.GATEWAY_READY_WORKERS.set(counts[PooledState.READY])


def count_lost(evidence: str) -> None:
    """Count a worker that was lost because a call failed (`call`), its reports ended (`watch`), or by `silence`."""
    metrics.GATEWAY_LOST_WORKERS.labels(evidence=evidence).inc()
