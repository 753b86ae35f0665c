"""What the cache is told."""

from pathlib import Path

from pydantic import Field

from tlt_common.config.base import Frozen, ServiceConfig

MIB = 2**20


class CaptureSettings(Frozen):
    """What engines keep of their hidden states."""

    sample_ratio: float = Field(1.0, ge=0, le=1)
    """Share of requests captured; 0 turns capture off."""
    frame_tokens: int = Field(256, ge=8)
    """Most states of one frame. The drafter trains on windows of this length."""


class CacheConfig(ServiceConfig):
    """Keeps recent hidden states for drafter training."""

    redis: str = Field("embedded", pattern="^(embedded|memory|(redis|rediss|unix)://.+)$")
    """"embedded" starts a private Redis; "memory" keeps frames in this process; else the URL of a Redis, which replicas
    of this service may share."""
    fleet: str = Field("default", min_length=1)
    """Fleets that share a Redis do not see each other's frames."""
    budget_bytes: int = Field(512 * MIB, gt=0)
    """Of frames. Above it the oldest policy's go first, then short responses."""
    capture: CaptureSettings = CaptureSettings()
    """What engines keep of their hidden states."""
    probe_every_s: float = Field(1.0, gt=0)
    """How often the store is asked whether it is there. While it is not, engines copy nothing."""
    run_dir: Path | None = None
    """Where the embedded Redis has its files; None: the system's temporary directory."""
    redis_socket: Path | None = None
    """Socket of the embedded Redis, for other services of the machine; None: one in its own directory."""


CONFIG = CacheConfig
