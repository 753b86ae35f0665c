"""
Checks that the scheduler waits for the last pass that read its tables, or for the whole round.

Between rounds, SGLang's scheduler rewrites tables that passes read, such as `req_to_token`. On a GPU it waits for an
event of one runner first: the worker names the runner whose pass read last, and that pass publishes the event behind
its reads. An event of an earlier pass would let it write while a later one still reads: a new request's cache slots
would be written to by one that has ended. Here passes publish as on a GPU, and a round whose event comes too early
fails.

SGLang 0.5.23: `Scheduler._apply_war_barrier`, `DecodeCudaGraphRunner.execute`, `EAGLEDraftExtendCudaGraphRunner`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple


class ReadDone(NamedTuple):
    """Stands for the event of a pass."""

    read: int
    """Number of the last read before it."""


class TableReads:
    """Numbers the reads of the scheduler's tables."""

    def __init__(self) -> None:
        self.count = 0

    def passes(self, runner: Any, *, publishes: bool) -> None:
        """Record a pass of a runner. A pass that publishes nothing discards its runner's earlier event."""
        self.count += 1
        runner.shared_read_done_event = ReadDone(self.count) if publishes else None

    def reads(self) -> None:
        """Record a read outside passes."""
        self.count += 1

    def require_last(self, runner: Any) -> None:
        """
        Check that the event of the runner that a worker names follows all reads. Without an event, all reads are
        awaited.

        Raises:
            AssertionError: The event precedes a read.
        """
        event, runner.shared_read_done_event = runner.shared_read_done_event, None
        assert event is None or event.read == self.count, (  # noqa: S101 - the purpose
            f"the scheduler waits for read {event.read} of its tables, and read {self.count} comes later"
        )


_reads = TableReads()


def publish(original: Callable[..., Any], self: Any, forward_batch: Any, *args: Any, **kw: Any) -> Any:
    """Wrap `ModelRunner.forward`: verification and plain decoding publish, a drafter's steps and prompts do not."""
    mode = forward_batch.forward_mode
    output = original(self, forward_batch, *args, **kw)
    _reads.passes(self, publishes=mode.is_target_verify() or (mode.is_decode() and not self.is_draft_worker))
    return output


def read(original: Callable[..., Any], self: Any, *args: Any, **kw: Any) -> Any:
    """Wrap functions that read cache slots outside a runner's pass."""
    _reads.reads()
    return original(self, *args, **kw)


def require_last_reader(original: Callable[..., Any], self: Any) -> Any:
    """Wrap `Scheduler._apply_war_barrier`, which does nothing on a CPU."""
    _reads.require_last(self.model_worker.last_shared_read_runner)
    return original(self)
