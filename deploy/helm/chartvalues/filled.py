"""Service settings that the chart fills in. They are not exposed as values."""

from tlt_common.config.base import Frozen
from tlt_common.config.entry import service_entry

EVERYWHERE = frozenset({"listen", "metrics_port", "metrics_host", "port_file", "tls", "tokens", "drain_s", "traces"})
FILLED = {
    "gateway": {"coordinator", "workers", "gateway_id", "spool_dir", "spool_shared", "spool_bytes"}
    | {"http.listen", "http.tokenizer"},
    "coordinator": {"http_listen", "state_dir"}
    | {f"kubernetes.{key}" for key in ("namespace", "pod", "config_map", "kubeconfig")},
    "cache": {"redis", "fleet", "run_dir"},
    "tuner": {"redis", "fleet"},
    "worker": {"model", "worker_id", "advertise", "pod", "coordinator", "cache", "tuner", "cores", "fleet"}
    | {
        "engine.drafter",
        "engine.tensor_parallel",
        "drafter_dir",
        "checkpoint_dir",
        "run_dir",
        "spool_bytes",
        "trainer.settings",
    },
    "trainer": set(),
}
"""By service; a dot separates nested keys."""


def model_of(service: str) -> type[Frozen]:
    """Return the model of the keys of a service."""
    return service_entry(service).keys


def filled(service: str) -> frozenset[str]:
    """Return the keys that the chart fills in for a service."""
    return EVERYWHERE | FILLED[service]
