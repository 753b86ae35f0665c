"""
The scheduler waits for the pass that read its tables last, or for the whole round.

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
    """Number of the read that it is behind."""


class TableReads:
    """Numbers the reads of the scheduler's tables."""

    def __init__(self) -> None:
        self.count = 0

    def passes(self, runner: Any, *, publishes: bool) -> None:
        """Note a pass of a runner; one that publishes nothing discards what its runner published before."""
        self.count += 1
        runner.shared_read_done_event = ReadDone(self.count) if publishes else None

    def reads(self) -> None:
        """Note a read outside of passes."""
        self.count += 1

    def require_last(self, runner: Any) -> None:
        """
        Check that the event of the runner that a worker names is behind all reads; without one, all are waited for.

        Raises:
            AssertionError: It is not.
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
    """Wrap what reads cache slots without a pass of a runner."""
    _reads.reads()
    return original(self, *args, **kw)


def require_last_reader(original: Callable[..., Any], self: Any) -> Any:
    """Wrap `Scheduler._apply_war_barrier`, which does nothing on a CPU."""
    _reads.require_last(self.model_worker.last_shared_read_runner)
    return original(self)
