"""Base of all configuration models. Imports nothing heavy, so that --help is instant."""

from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field


class Frozen(BaseModel):
    """A piece of configuration. A docstring under a field explains it to users (`tlt config explain`)."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, validate_default=True)


class TlsSettings(Frozen):
    """Files in PEM, read anew when they change: a renewed certificate needs no restart."""

    certificate: Path
    """Own certificate, with the chain up to the authority. It carries the DNS name COMPONENT.tlt.internal beside the
    names the service is reached by."""
    key: Path
    """Private key of the certificate."""
    ca: Path
    """Authorities whose certificates are believed, of servers and of callers."""


class ServiceConfig(Frozen):
    """What every service is told."""

    listen: str = Field("127.0.0.1:0", pattern=r"^.*:\d{1,5}$")
    """host:port of the gRPC server; port 0 takes any free one."""
    metrics_port: int | None = Field(None, ge=0, le=65535)
    """Port of /metrics, /livez and /readyz; 0 takes any free one, null turns them off."""
    metrics_host: str | None = None
    """Host of that port; null: the one of `listen`."""
    tls: TlsSettings | None = None
    """Encrypts every port and tells services apart by certificate; null: plain text, and everybody is let in."""
    traces: str = Field("", pattern=r"^$|^https?://(\[[0-9A-Fa-f:.]+\]|[^/\s:\[\]]+):\d{1,5}$")
    """http(s)://host:port of an OpenTelemetry collector that takes OTLP by gRPC; empty: no traces are made. Needs
    tlt[traces]."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least severe events that are written."""
    port_file: Path | None = None
    """Where the bound addresses are written as JSON once the service takes calls."""


def model_in(annotation: Any) -> type[BaseModel] | None:
    """The model a key of that type holds, optional or not; None: it holds something else."""
    for choice in (annotation, *get_args(annotation)):
        if isinstance(choice, type) and issubclass(choice, BaseModel):
            return choice
    return None
