"""What the tuner can be told."""

from pydantic import Field

from tlt_common.config.base import ServiceConfig


class TunerConfig(ServiceConfig):
    """Where it listens, and how often it speaks."""

    push_interval_s: float = Field(1.0, gt=0)
    """Engines are sent what changed at most once per this time."""
    redis: str = Field("memory", pattern="^(memory|(redis|rediss|unix)://.+)$")
    """Where what was learned outlives this process: the URL of a Redis; "memory" forgets it. The tuner serves without
    its Redis too, and writes when it is back."""
    fleet: str = Field("default", min_length=1)
    """Tuners that share a Redis do not see the pools of another fleet's."""
    save_interval_s: float = Field(5.0, gt=0)
    """What changed is written at most once per this time: as much is forgotten when the process is killed."""


CONFIG = TunerConfig
