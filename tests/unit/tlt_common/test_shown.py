import pytest
from prometheus_client import REGISTRY

from tests import promql
from tlt_common.telemetry import metrics
from tlt_common.telemetry.shown import OWNERS, Shown, owner


def families(component: str) -> set[str]:
    return {family.name for family in Shown(component).collect()}


@pytest.mark.parametrize(
    ("name", "component"),
    [
        ("tlt_gateway_ready_workers", "gateway"),
        ("tlt_cache_store_up", "cache"),
        ("tlt_bubble_utilisation_ratio", "coordinator"),
        ("tlt_rpc_calls", None),
        ("tlt_build_info", None),
        ("process_cpu_seconds", None),
    ],
)
def test_a_metric_belongs_to_the_part_it_is_named_after(name: str, component: str | None) -> None:
    assert owner(name) == component


def test_a_part_shows_its_own_gauges_even_at_zero_and_not_those_of_others() -> None:
    metrics.GATEWAY_READY_WORKERS.set(0)
    metrics.CACHE_STORE_UP.set(0)
    assert "tlt_gateway_ready_workers" in families("gateway")
    assert "tlt_gateway_ready_workers" not in families("cache")
    assert "tlt_cache_store_up" in families("cache")
    assert "tlt_cache_store_up" not in families("gateway")


def test_what_a_part_set_of_anothers_is_shown() -> None:
    """The coordinator keeps the ledger of the workers' states."""
    metrics.WORKER_STATE.labels(worker="shown", state="idle").set(1)
    assert "tlt_worker_state" in families("coordinator")


def test_between_them_the_parts_show_everything() -> None:
    every = {family.name for family in REGISTRY.collect()}
    assert set().union(*map(families, (*OWNERS, "coordinator"))) == every


def test_counters_of_closed_sets_begin_at_zero() -> None:
    assert promql.exported()
    for name, labels in {
        "tlt_gateway_updates_total": {"outcome": "failed"},
        "tlt_worker_leases_ended_total": {"reason": "trainer_died"},
        "tlt_worker_frames_dropped_total": {"reason": "full"},
    }.items():
        assert REGISTRY.get_sample_value(name, labels) is not None
