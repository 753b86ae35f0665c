"""Configuration of the hidden-state cache."""

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, field_validator

from tlt_common.config.base import Frozen, ServiceConfig
from tlt_common.config.entry import ServiceEntry
from tlt_common.config.redis_url import checked_redis_url

MIB = 2**20

REDIS_SOCKET = "redis.sock"
"""Name of the embedded Redis' socket in `run_dir`."""


class CaptureSettings(Frozen):
    """Selects the hidden states that engines capture."""

    sample_ratio: float = Field(1.0, ge=0, le=1)
    """Share of requests to capture; 0 disables capture."""
    state_bits: Literal[8, 16] = 8
    """Bits per element of a state: 16 as the model computes them; 8 with one scale per state, which halves what is
    copied off the device, sent and stored."""


class CacheConfig(ServiceConfig):
    """The cache keeps recent hidden states for drafter training."""

    component = "cache"

    redis: SecretStr = SecretStr("embedded")
    """`embedded` starts a private Redis, `memory` keeps frames in this process; otherwise the URL of a Redis, which
    replicas of the cache may share: redis[s]://[:PASSWORD@]HOST[:PORT][/DB], or unix://PATH; or of any node of a Redis
    Cluster: redis[s]+cluster://[:PASSWORD@]HOST[:PORT]. A URL with a password is refused on the command line; set it in
    the file or in TLT_CACHE_REDIS."""
    redis_ca: Path | None = None
    """CA bundle (PEM) that verifies a rediss:// server; null uses the system's."""
    shards: int = Field(1, ge=1, le=1024)
    """
    Number of parts into which frames are divided, each on one node of a Redis Cluster: one per primary, or a multiple.
    The budget is divided equally. After a change, earlier frames are not found.
    """
    fleet: str = Field("default", min_length=1)
    """Name of the fleet; fleets that share a Redis do not see each other's frames."""
    budget_bytes: int = Field(512 * MIB, gt=0)
    """
    Byte budget for the memory that Redis uses for frames, over all shards. Frames of the oldest policy are evicted
    first, then those of short responses. Chosen by `tlt simulate sweep` (docs/results/sweeps.md).
    """
    capture: CaptureSettings = CaptureSettings()
    """Selects the hidden states that engines capture."""
    run_dir: Path | None = None
    """Directory for the embedded Redis, with its Unix socket redis.sock for other services on the machine. Null: a
    directory in the system's temporary one."""

    @field_validator("redis")
    @classmethod
    def _is_redis(cls, redis: SecretStr) -> SecretStr:
        return checked_redis_url(redis, words=("embedded", "memory"), cluster=True)


SERVICE = ServiceEntry(model=CacheConfig, run="tlt_cache.main:run", extra="cache")
"""`tlt serve cache`."""
