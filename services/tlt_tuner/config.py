"""What the tuner can be told."""

from pydantic import Field

from tlt_common.config.base import ServiceConfig


class TunerConfig(ServiceConfig):
    """Where it listens, and how often it speaks."""

    push_interval_s: float = Field(1.0, gt=0)
    """Engines are sent what changed at most once per this time."""


CONFIG = TunerConfig
