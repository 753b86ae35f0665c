"""The scheduler loops that engine tests run in."""

from collections.abc import Mapping
from enum import StrEnum

from tlt_bench.gpu_loop import settings


class Loop(StrEnum):
    """A loop of SGLang's scheduler."""

    PLAIN = "plain"
    """A round is processed before the next is launched: what SGLang runs on a CPU."""
    OVERLAPPED = "overlapped"
    """A round is processed after the next was launched, with outputs in memory that the next pass of
    either model overwrites, lengths unknown to the host and sampling in fixed shapes: as on a GPU."""

    @property
    def variables(self) -> Mapping[str, str]:
        """The environment in which engines run it."""
        return settings.variables() if self is Loop.OVERLAPPED else {}
