"""Tensor-parallel ranks of one engine: rank 0 receives messages and decides, the others follow in the same round."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch.distributed as dist

from tlt_worker.link.messages import Down, Up
from tlt_worker.link.scheduler_end import SchedulerEnd

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """
    One process among the ranks, which run the same rounds in the same order.

    Ranks that decided independently would diverge: rewards are measured times, and message arrival is not synchronised.
    """

    rank: int
    size: int
    group: Any
    """CPU process group of torch.distributed."""

    @property
    def leads(self) -> bool:
        """Whether this is rank 0."""
        return self.rank == 0

    def agree(self, decide: Callable[[], T]) -> T:
        """Return rank 0's decision. Every rank must call it at the same point of a round."""
        if self.size == 1:
            return decide()
        box = [decide() if self.leads else None]
        dist.broadcast_object_list(box, group=self.group, group_src=0)
        return box[0]  # type: ignore[return-value] # set by rank 0


class NoLink:
    """The link of a rank above 0: the worker communicates with rank 0 only."""

    def beat(self) -> None:
        """Do nothing: a round ends on all ranks, and rank 0 counts it."""

    def send(self, message: Up) -> bool:
        """Drop the message."""
        del message
        return True

    def receive(self) -> list[Down]:
        """Return nothing: rank 0 receives messages and shares them through `Ranks.agree`."""
        return []


Link = SchedulerEnd | NoLink
