"""Tensor-parallel ranks of one engine: rank 0 hears the worker and decides, the others follow in the same round."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch.distributed as dist

from tlt_worker.engine.link import Down, SchedulerEnd, Up

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """
    One process among the ranks, which run the same rounds in the same order.

    Ranks that chose by themselves would differ: rewards are times, and messages arrive when they arrive.
    """

    rank: int
    size: int
    group: Any
    """torch.distributed's, on the CPU."""

    @property
    def leads(self) -> bool:
        """Whether this is rank 0."""
        return self.rank == 0

    def agree(self, decide: Callable[[], T]) -> T:
        """Return what rank 0 decides. Every rank calls it at the same point of a round."""
        if self.size == 1:
            return decide()
        box = [decide() if self.leads else None]
        dist.broadcast_object_list(box, group=self.group, group_src=0)
        return box[0]  # type: ignore[return-value] # rank 0 put it there


class NoLink:
    """The link of a rank above 0: the worker hears of an engine once."""

    def send(self, message: Up) -> bool:
        """Drop it."""
        del message
        return True

    def heard(self) -> list[Down]:
        """Nothing: rank 0 hears, and says so by `Ranks.agree`."""
        return []


Link = SchedulerEnd | NoLink
