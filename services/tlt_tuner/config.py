"""Configuration of the tuner."""

from pathlib import Path

from pydantic import Field, SecretStr, field_validator

from tlt_common.config.base import ServiceConfig
from tlt_common.config.entry import ServiceEntry
from tlt_common.config.redis_url import checked_redis_url


class TunerConfig(ServiceConfig):
    """The tuner pools the engines' statistics on speculation."""

    component = "tuner"

    redis: SecretStr = SecretStr("memory")
    """URL of a Redis that stores the pools, redis[s]://[:PASSWORD@]HOST[:PORT][/DB] or unix://PATH; `memory` forgets
    them at exit. While Redis is unreachable the tuner keeps serving, and saves once it is back. A URL with a password
    is refused on the command line; set it in the file or in TLT_TUNER_REDIS."""
    redis_ca: Path | None = None
    """CA bundle (PEM) that verifies a rediss:// server; null uses the system's."""
    fleet: str = Field("default", min_length=1)
    """Name of the fleet; tuners that share a Redis do not see each other's pools."""

    @field_validator("redis")
    @classmethod
    def _is_redis(cls, redis: SecretStr) -> SecretStr:
        return checked_redis_url(redis, words=("memory",))


SERVICE = ServiceEntry(model=TunerConfig, run="tlt_tuner.main:run", extra="tuner")
"""`tlt serve tuner`."""
