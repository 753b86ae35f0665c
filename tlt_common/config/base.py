"""Base classes of all configuration models. Imports nothing heavy, so that --help stays fast."""

from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, SecretStr


class Frozen(BaseModel):
    """A group of configuration keys. The docstring below a field is its documentation (`tlt config explain`)."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        validate_default=True,
        allow_inf_nan=False,
        # A value that is refused may be a secret; `loader` shows those that are not.
        hide_input_in_errors=True,
    )


class TlsSettings(Frozen):
    """PEM files, reloaded when they change: a renewed certificate needs no restart."""

    certificate: Path
    """Certificate of this service, with the chain up to the CA. Must contain the DNS name COMPONENT.tlt.internal in
    addition to the names the service is reached by."""
    key: Path
    """Private key of the certificate."""
    ca: Path
    """CA bundle to verify servers and callers with."""


class ServiceConfig(Frozen):
    """Keys common to all services."""

    component: ClassVar[str] = "service"
    """Name of the service in metrics and traces; not a key."""
    listen: str = Field("127.0.0.1:0", pattern=r"^.*:\d{1,5}$")
    """host:port of the gRPC server; port 0 picks a free port."""
    metrics_port: int | None = Field(None, ge=0, le=65535)
    """Port of /metrics, /livez and /readyz; 0 picks a free port, null disables them."""
    liveness_s: float | None = Field(30.0, gt=0)
    """Seconds for which the event loop may be blocked before /livez fails, so that Kubernetes or `tlt up` restarts the
    process. Time in which the whole process got no CPU time does not count. Null disables the check."""
    metrics_host: str | None = None
    """Host of the metrics port; null uses the host of `listen`."""
    tls: TlsSettings | None = None
    """Enables TLS on every port and authenticates services by certificate; null disables both."""
    traces: str = Field("", pattern=r"^$|^https?://(\[[0-9A-Fa-f:.]+\]|[^/\s:\[\]]+):\d{1,5}$")
    """http(s)://host:port of an OpenTelemetry collector that accepts OTLP over gRPC; empty disables tracing. Requires
    tlt-suite[traces]."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Minimum severity of log events."""
    port_file: Path | None = None
    """File to write the bound addresses to, as JSON, once the service accepts calls; null writes none."""


def is_secret(annotation: Any) -> bool:
    """Return whether a field of this type holds a secret, optional or not."""
    return any(choice is SecretStr for choice in (annotation, *get_args(annotation)))


def model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the model nested in a field of this type, optional or not, or None if it holds something else."""
    for choice in (annotation, *get_args(annotation)):
        if isinstance(choice, type) and issubclass(choice, BaseModel):
            return choice
    return None
