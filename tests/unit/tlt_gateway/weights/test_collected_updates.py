"""Which worker receives an update in several calls."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tlt_common.domain.ids import PolicyVersion
from tlt_common.domain.transfer import ChangesPart, Collected
from tlt_common.errors import WeightsError
from tlt_gateway.weights.collected_updates import CollectedUpdates
from tlt_gateway.weights.fanout import WeightsFanout
from tlt_gateway.workers.pooled_worker import PooledState
from tlt_gateway.workers.worker_pool import WorkerPool


@dataclass
class Receiver:
    """A worker's side, which counts what it is given."""

    parts: list[ChangesPart | None] = field(default_factory=list)
    drops: int = 0

    async def collect(self, _content: bytes, part: ChangesPart | None = None) -> Collected:
        self.parts.append(part)
        return Collected(parts=len(self.parts))

    async def drop(self) -> Collected:
        self.drops += 1
        return Collected()


def worker(name: str, *, receiving: bool) -> Any:
    return SimpleNamespace(
        name=name,
        answers=True,
        state=PooledState.READY,
        info=SimpleNamespace(receiving=receiving),
        remote=SimpleNamespace(receiver=Receiver()),
    )


def updates(*workers: Any) -> CollectedUpdates:
    return CollectedUpdates(cast(WorkerPool, SimpleNamespace(workers=workers)), cast(WeightsFanout, None))


async def test_changes_go_to_the_worker_that_holds_those_before() -> None:
    first, second = worker("a", receiving=False), worker("b", receiving=True)
    part = ChangesPart(base=PolicyVersion(3), number=1)
    await updates(first, second).collect_changes(b"", part)
    assert [first.remote.receiver.parts, second.remote.receiver.parts] == [[], [part]]


async def test_changes_that_two_workers_hold_are_deleted() -> None:
    holders = [worker("a", receiving=True), worker("b", receiving=True)]
    for number in (0, 1):
        with pytest.raises(WeightsError, match="workers a, b held tensors"):
            await updates(*holders).collect_changes(b"", ChangesPart(base=PolicyVersion(3), number=number))
    with pytest.raises(WeightsError, match="Restart with part 0"):
        await updates(*holders).end_changes(ChangesPart(base=PolicyVersion(3), number=2), None)
    assert [holder.remote.receiver.drops for holder in holders] == [3, 3]
    assert not any(holder.remote.receiver.parts for holder in holders)
