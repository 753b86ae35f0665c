"""
Recovers SGLang's scheduler from an exception while a round is prepared, run or processed.

On a GPU the next round may have been launched when one fails; its result is dropped.

Written against SGLang 0.5.23: `Scheduler.event_loop_overlap`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tlt_worker.scheduler.failures.recovery import recovery
from tlt_worker.scheduler.failures.retraction import drain, names_of, nothing_to_run, run_again, settle, suspects_of


@dataclass(frozen=True, slots=True)
class FailedRound:
    """Replaces the result of a failed round. It has nothing to process."""

    delay_sample_func: None = None
    """Read by SGLang's loop."""


def run_contained(original: Callable[..., Any], self: Any, batch: Any, *args: Any, **kw: Any) -> Any:
    """Wrap `Scheduler.run_batch`."""
    if not batch.reqs and not batch.forward_mode.is_idle():
        return FailedRound()  # dropped after it was planned
    try:
        return original(self, batch, *args, **kw)
    except Exception as error:  # noqa: BLE001 - see `recovery`
        names = names_of(batch.reqs)
        with recovery(self, error, "run", names):
            drain(self)
            _contain(self, batch, names, error)
        return FailedRound()


def process_contained(process: Callable[..., Any], self: Any, batch: Any, result: Any, *args: Any, **kw: Any) -> Any:
    """Run `process`, which processes the result of a round."""
    if isinstance(result, FailedRound):
        return None
    names = names_of(batch.reqs)
    try:
        outcome = process(self, batch, result, *args, **kw)
    except Exception as error:  # noqa: BLE001 - see `recovery`
        with recovery(self, error, "process", names):
            allocator = self.token_to_kv_pool_allocator
            if allocator.free_group is not None:
                allocator.free_group_end()
            settle(self, batch)
            _contain(self, batch, names, error)
        return None
    suspects = suspects_of(self)
    suspects.passed(names)
    for req in batch.reqs:
        if req.finished():
            suspects.forget(req.rid)
    return outcome


def admit_one_suspect(original: Callable[..., Any], self: Any, running_batch: Any) -> Any:
    """Wrap `Scheduler.get_new_batch_prefill`: suspects run one at a time, and preparing a batch may fail."""
    chunked = [self.chunked_req] if self.chunked_req is not None else []
    held = suspects_of(self).held_back(names_of(self.waiting_queue), names_of([*running_batch.reqs, *chunked]))
    back = [req for req in self.waiting_queue if req.rid in held]
    before = [*chunked, *(req for req in self.waiting_queue if req.rid not in held)]
    self.waiting_queue = before[len(chunked) :]
    try:
        return original(self, running_batch)
    except Exception as error:  # noqa: BLE001 - see `recovery`
        with recovery(self, error, "admit", names_of(before)):
            drain(self)
            # Of requests that the drained round finished, or that were retracted with it.
            running_batch.filter_batch(reqs_to_exclude=[req for req in running_batch.reqs if req.is_retracted])
            still = {req.rid for req in self.waiting_queue if not req.kv.holds_kv and req.lock is None}
            self.waiting_queue = [req for req in self.waiting_queue if req.rid in still]
            self.chunked_req = None
            run_again(self, [req for req in before if req.rid not in still], names_of(before), error)
        return nothing_to_run(running_batch)
    finally:
        self.waiting_queue = [*self.waiting_queue, *back]


def _contain(scheduler: Any, batch: Any, names: list[str], error: Exception) -> None:
    """Retract all requests that the failure concerns, end those found to be its cause, and queue the others."""
    dropped = [batch, *_in_flight(scheduler)]
    planned = scheduler.cur_batch_for_debug
    if planned is not None:
        dropped.append(planned)
    waiting = {req.rid for req in scheduler.waiting_queue}
    found = {req.rid: req for one in dropped for req in one.reqs if not req.finished() and req.rid not in waiting}
    reqs = list(found.values())
    for one in (scheduler.running_batch, scheduler.last_batch):
        if one is not None and not any(one is other for other in dropped):
            one.filter_batch(reqs_to_exclude=reqs)
            one.batch_is_full = False
    for one in dropped:
        one.reqs, one.batch_is_full = [], False
    if scheduler.chunked_req is not None and scheduler.chunked_req.rid in found:
        scheduler.chunked_req = None
    run_again(scheduler, reqs, names, error)


def _in_flight(scheduler: Any) -> list[Any]:
    """Replace the results of launched rounds, whose requests are retracted, and return their batches."""
    queue: Any = getattr(scheduler, "result_queue", None) or []
    batches = [batch for batch, _ in queue]
    for place, batch in enumerate(batches):
        queue[place] = (batch, FailedRound())
    return batches
