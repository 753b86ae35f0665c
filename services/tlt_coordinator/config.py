"""What the coordinator can be told."""

from pathlib import Path

from pydantic import Field

from tlt_common.config.base import Frozen, ServiceConfig


class SpotConfig(Frozen):
    """When idle workers train."""

    settle_s: float = Field(0.3, ge=0)
    """A worker is lent after so many seconds without a request."""
    lease_ttl_s: float = Field(5.0, gt=0)
    """A lease that is not renewed for so long ends by itself. It is renewed every third of that."""
    keep_warm: int = Field(0, ge=0)
    """Idle workers that are not lent, so that a new request finds one at once."""


class CoordinatorConfig(ServiceConfig):
    """Who trains when, and where that is written down."""

    http_listen: str | None = "127.0.0.1:0"
    """host:port of the status page's JSON; port 0 takes any, null turns it off."""
    state_dir: Path | None = None
    """
    Directory for what must outlive a restart: the newest drafter and the last epoch. Null keeps them in memory: after
    a restart workers have no drafter to load until the next one is published.
    """
    lending: bool = True
    """Lend idle workers from the start; `SetLending` changes it."""
    spot: SpotConfig = SpotConfig()
    """When idle workers train."""
    silence_s: float = Field(5.0, gt=0)
    """A worker that sends nothing for so long is down. Workers send at least once a second."""
    queue_stale_s: float = Field(5.0, gt=0)
    """A gateway's queue no longer counts when it was not reported for so long."""


CONFIG = CoordinatorConfig
