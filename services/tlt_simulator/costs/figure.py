"""A number of a cost model, with its source. Pure."""

from enum import StrEnum
from typing import Self

from pydantic import Field, model_validator

from tlt_common.config.base import Frozen


class Source(StrEnum):
    """Source of a number, from the most to the least reliable."""

    MEASURED = "measured"
    """Measured on the simulated machine."""
    FITTED = "fitted"
    """Fitted to a recorded run."""
    PUBLISHED = "published"
    """Published by others, for this device and model."""
    CALCULATED = "calculated"
    """Calculated from published rates of the device and the sizes of the model."""
    ASSUMED = "assumed"


class CostFigure(Frozen):
    """A number of a cost model, with its interval."""

    value: float = Field(ge=0)
    low: float | None = Field(None, ge=0)
    """Lower end of a 90 % interval; null stands for `value`."""
    high: float | None = Field(None, ge=0)
    """Upper end; null stands for `value`."""
    source: Source
    of: str = ""
    """What it was measured on, fitted to or calculated from."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.least <= self.value <= self.most:
            raise ValueError(f"low {self.least:g}, value {self.value:g} and high {self.most:g} must be in this order")
        return self

    @property
    def least(self) -> float:
        """Lower end of the interval."""
        return self.value if self.low is None else self.low

    @property
    def most(self) -> float:
        """Upper end of the interval."""
        return self.value if self.high is None else self.high

    def scaled(self, factor: float) -> "CostFigure":
        """Return the number and its interval times a factor."""
        low, high = self.low, self.high
        return self.model_copy(
            update={
                "value": self.value * factor,
                "low": None if low is None else low * factor,
                "high": None if high is None else high * factor,
            }
        )
