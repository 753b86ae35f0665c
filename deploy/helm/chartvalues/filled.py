"""Settings of services that the chart fills in. They are no values: nobody should say them twice."""

from importlib import import_module

from tlt_common.config.base import ServiceConfig

EVERYWHERE = frozenset({"listen", "metrics_port", "metrics_host", "port_file", "tls", "tokens", "drain_s", "traces"})
FILLED = {
    "gateway": {"coordinator", "workers", "gateway_id", "spool_dir", "spool_shared"},
    "coordinator": {"http_listen", "state_dir"}
    | {f"kubernetes.{key}" for key in ("namespace", "pod", "lease", "kubeconfig")},
    "cache": {"redis", "fleet", "run_dir", "redis_socket"},
    "tuner": {"redis", "fleet"},
    "worker": {"model", "worker_id", "advertise", "pod", "coordinator", "cache", "tuner", "cores", "tensor_parallel"}
    | {"fleet", "drafter", "drafter_dir", "checkpoint_dir", "run_dir", "trainer.settings"},
    "trainer": {"socket", "model", "drafter_dir", "checkpoint_dir", "worker_id", "cache", "coordinator"}
    | {"nice", "threads", "log_level"},
}
"""By service; a dot leads into a block."""


def model_of(service: str) -> type[ServiceConfig]:
    """Find the configuration model of that service."""
    model: type[ServiceConfig] = getattr(import_module(f"tlt_{service}.config"), f"{service.capitalize()}Config")
    return model


def filled(service: str) -> frozenset[str]:
    """Name what the chart fills in for that service."""
    return EVERYWHERE | FILLED[service]
