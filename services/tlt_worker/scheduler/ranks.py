"""Tensor-parallel ranks of one engine: rank 0 receives messages and decides, the others follow in the same round."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, NamedTuple

import torch
import torch.distributed as dist

from tlt_common.telemetry.log import get_logger
from tlt_worker.link.messages import Down, Up
from tlt_worker.link.scheduler_end import SchedulerEnd
from tlt_worker.scheduler.drafts.head_tokens import HeadTokensChosen

log = get_logger(__name__)

FAILURE_S = 30.0
"""How long a rank that failed waits for the others to fail as well, in seconds."""

NOTHING: Final = -1

Told = Down | HeadTokensChosen
"""What rank 0 tells the others: what the worker sent, and what it decided itself."""


class LeaderError(Exception):
    """Rank 0 failed to decide."""


class Decision(NamedTuple):
    """Rank 0's decision for a round of all ranks."""

    number: int = NOTHING
    """Number of the arm; `NOTHING` if the round does not decode."""
    rest: Any = None
    """Additional data for the ranks, such as found drafts; None in most rounds, which saves a second message."""
    keeps_up: bool = False
    """Whether the drafter processes skipped states after this round, if it skips this one too."""


@dataclass(frozen=True, slots=True)
class _More:
    """The second message of a decision with additional data."""

    messages: Sequence[Told]
    rest: Any
    failure: str | None
    """Why rank 0 failed to decide."""


@dataclass(slots=True, kw_only=True)
class Ranks:
    """
    One process among the ranks, which run the same rounds in the same order.

    Ranks that decided independently would diverge: rewards are measured times, and message arrival is not synchronized.
    """

    rank: int
    size: int
    group: Any
    """CPU process group of torch.distributed."""
    failures: Any = None
    """A second CPU process group, for failures only, so that waiting there does not disturb other messages."""
    _decisions: int = field(default=0, init=False)

    @classmethod
    def of(cls, group: Any) -> "Ranks":
        """Return this process's place in SGLang's group. All ranks must call it at the same point."""
        failures = None
        if group.world_size > 1:
            failures = dist.new_group(
                group.ranks, timedelta(seconds=FAILURE_S), backend="gloo", use_local_synchronization=True
            )
        return cls(rank=group.rank_in_group, size=group.world_size, group=group.cpu_group, failures=failures)

    @property
    def leads(self) -> bool:
        """Whether this is rank 0."""
        return self.rank == 0

    def agree(
        self,
        receive: Callable[[], Sequence[Told]],
        handle: Callable[[Told], object],
        decide: Callable[[], Decision],
    ) -> Decision:
        """
        Handle rank 0's received messages on all ranks, then return its decision.

        Every rank must call it at the same point of a round. They exchange one message of fixed size, and a second one
        only if something was received, or the decision has additional data.

        Raises:
            Exception: `receive`, `handle` or `decide` raised it on rank 0.
            LeaderError: Rank 0 failed; raised on the other ranks, so that all ranks fail at this point.
        """
        if self.size == 1:
            for message in receive():
                handle(message)
            return decide()
        self._decisions += 1
        return self._lead(receive, handle, decide) if self.leads else self._follow(handle)

    def _lead(
        self,
        receive: Callable[[], Sequence[Told]],
        handle: Callable[[Told], object],
        decide: Callable[[], Decision],
    ) -> Decision:
        messages: Sequence[Told] = ()
        made, error, failure = Decision(), None, None
        try:
            messages = receive()
            for message in messages:
                handle(message)
            made = decide()
        except Exception as raised:  # noqa: BLE001 - raised below, once the other ranks know
            error, failure = raised, f"{type(raised).__name__}: {raised}"
        has_more = bool(messages) or made.rest is not None or failure is not None
        dist.broadcast(torch.tensor([made.number, has_more, made.keeps_up]), group=self.group, group_src=0)
        if has_more:
            box = [_More(messages, made.rest, failure)]
            dist.broadcast_object_list(box, group=self.group, group_src=0)
        if error is not None:
            raise error
        return made

    def _follow(self, handle: Callable[[Told], object]) -> Decision:
        told = torch.empty(3, dtype=torch.int64)
        dist.broadcast(told, group=self.group, group_src=0)
        number, has_more, keeps_up = told.tolist()
        if not has_more:
            return Decision(number, keeps_up=bool(keeps_up))
        box: list[Any] = [None]
        dist.broadcast_object_list(box, group=self.group, group_src=0)
        more: _More = box[0]
        for message in more.messages:
            handle(message)
        if more.failure is not None:
            raise LeaderError(more.failure)
        return Decision(number, more.rest, bool(keeps_up))

    def failed_together(self, what: Iterable[object]) -> bool:
        """
        Return whether all ranks have failed at the same point; wait for them up to `FAILURE_S`.

        Successful rounds need no message for this: a rank that did not fail never gets here. It waits for this one in
        the next round, until this one gives up and exits, which ends the engine.

        Args:
            what: The point of failure and the requests concerned, without the error, whose text may name the device.
        """
        if self.size == 1:
            return True
        text = "\0".join(map(str, (self._decisions, *what)))
        mine = torch.frombuffer(bytearray(hashlib.sha256(text.encode()).digest()), dtype=torch.uint8)
        found = [torch.empty_like(mine) for _ in range(self.size)]
        try:
            dist.all_gather(found, mine, group=self.failures)
        except RuntimeError as error:  # one is missing, or has ended
            log.error("rank_failed_alone", rank=self.rank, error=str(error))  # noqa: TRY400 - the cause is logged already
            return False
        return all(torch.equal(one, mine) for one in found)

    def all_did(self, done: bool) -> bool:
        """Return whether all ranks completed the action that rank 0 is about to confirm. Every rank must call it."""
        if self.size == 1:
            return done
        found: list[Any] = [None] * self.size
        dist.all_gather_object(found, done, group=self.group)
        return all(found)


class NoLink:
    """The link of ranks above 0: the worker communicates with rank 0 only."""

    def beat(self) -> None:
        """Do nothing: rank 0 counts the rounds of all ranks."""

    def compile_begins(self) -> None:
        """Do nothing: ranks compile the same functions at the same time."""

    def compile_ends(self) -> None:
        """Do nothing."""

    def send(self, message: Up) -> bool:
        """Drop the message."""
        del message
        return True

    def receive(self) -> list[Down]:
        """Return nothing: rank 0 receives messages and shares them through `Ranks.agree`."""
        return []


Link = SchedulerEnd | NoLink
