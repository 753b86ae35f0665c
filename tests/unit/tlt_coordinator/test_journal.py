"""What a coordinator writes down of workers, leases, training and drafters."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest

from tests.unit.tlt_coordinator.scripted import BUSY, CONFIG, IDLE, Worker, publication, running
from tlt_common.domain.fleet import WorkerState
from tlt_common.domain.ids import WorkerId
from tlt_common.errors import UnavailableError
from tlt_common.journal.coordinator_lines import (
    DrafterLine,
    ExcludedLine,
    LeaderLine,
    LeaseChange,
    LeaseLine,
    LendingLine,
    StateLine,
    TrainedLine,
    WorkerLine,
)
from tlt_common.journal.line import Line
from tlt_common.journal.reader import journals_in
from tlt_coordinator.clock import Clock
from tlt_coordinator.config import KubernetesSettings
from tlt_coordinator.journal import CoordinatorJournal
from tlt_coordinator.lending.decision import Reason

pytestmark = pytest.mark.looptime

Kind = TypeVar("Kind", bound=Line)
OVER = UnavailableError("over")


@contextmanager
def written(directory: Path) -> Iterator[CoordinatorJournal]:
    with CoordinatorJournal.open(CONFIG.model_copy(update={"journal": directory}), Clock().now) as journal:
        yield journal


def of(directory: Path, kind: type[Kind]) -> list[Kind]:
    """Return the lines of a kind."""
    (journal,) = journals_in(directory)
    return [line for line in journal.lines() if isinstance(line, kind)]


async def test_states_and_leases_of_workers_are_written(tmp_path: Path) -> None:
    with written(tmp_path) as journal:
        async with running(journal=journal) as coordinator:
            worker = Worker.join(coordinator)
            await worker.live(1.0)
            worker.say(BUSY)
            await worker.live(1.0)
            coordinator.leave(worker.session)
            coordinator.end(OVER)
    (joined,) = of(tmp_path, WorkerLine)
    assert (joined.worker, joined.device, joined.devices, joined.slots) == ("w0", "cpu", 1, 8)
    states = [line.state for line in of(tmp_path, StateLine)]
    assert states[:2] == [WorkerState.DOWN, WorkerState.IDLE]
    assert states[2:] == [WorkerState.TRAINING, WorkerState.ROLLOUT, WorkerState.DOWN]
    assert [(line.change, line.epoch, line.reason) for line in of(tmp_path, LeaseLine)] == [
        (LeaseChange.GRANTED, 1, ""),
        (LeaseChange.REVOKED, 1, Reason.PREEMPTED),
    ]
    times = [line.at for line in of(tmp_path, Line)]
    assert times == sorted(times)


async def test_renewals_and_reports_without_a_change_are_not_written(tmp_path: Path) -> None:
    with written(tmp_path) as journal:
        async with running(journal=journal) as coordinator:
            await Worker.join(coordinator).live(60.0)
    assert len(of(tmp_path, LeaseLine)) == 1
    assert len(of(tmp_path, StateLine)) == 3


async def test_a_coordinator_says_since_when_it_lends_and_what_holds(tmp_path: Path) -> None:
    with written(tmp_path) as journal:
        for _ in range(2):
            async with running(journal=journal) as coordinator:
                worker = Worker.join(coordinator)
                coordinator.set_lending(enabled=False)
                coordinator.set_lending(enabled=False)
                await coordinator.exclude([WorkerId("w0")], excluded=True)
                coordinator.end(OVER)
                coordinator.leave(worker.session)  # as streams do when they have ended
    assert [line.leads for line in of(tmp_path, LeaderLine)] == [True, False] * 2
    assert [line.enabled for line in of(tmp_path, LendingLine)] == [True, False] * 2
    assert [line.workers for line in of(tmp_path, ExcludedLine)] == [(), ("w0",)] * 2
    assert len(of(tmp_path, StateLine)) == 4, "none of a coordinator that has ended"


async def test_published_drafters_are_written_once_with_their_scores(tmp_path: Path) -> None:
    with written(tmp_path) as journal:
        async with running(journal=journal) as coordinator:
            first = publication(0)
            for _ in range(2):
                await coordinator.publish(first)
            await coordinator.publish(replace(publication(1), base_top1=first.held_out_top1, tokens=70_000))
    drafters = of(tmp_path, DrafterLine)
    assert [line.version for line in drafters] == [1, 2]
    assert drafters[0].top1 == drafters[1].base_top1 == first.held_out_top1
    assert drafters[0].base_top1 is None
    assert [line.tokens for line in drafters] == [first.tokens, 70_000]


async def test_trained_seconds_are_written_when_there_are_more(tmp_path: Path) -> None:
    with written(tmp_path) as journal:
        async with running(journal=journal) as coordinator:
            idle = replace(IDLE, training_steps=40, training_tokens=9000, training_passes=2.5, training_gain=-0.01)
            idle = replace(idle, drafter_pause_s=0.04)
            worker = Worker.join(coordinator, status=idle)
            for _ in range(2):
                await worker.live(20.0)
                for _ in range(2):
                    coordinator.note_training(0, 10)
            await worker.live(20.0)
            trained_s = worker.status.training_s
            worker.say(replace(idle, state=BUSY.state, running=1))
            busy = Worker.join(coordinator, "w1", BUSY)
            await busy.live(1.0)
            coordinator.end(OVER)
    lines = of(tmp_path, TrainedLine)
    assert [line.worker for line in lines] == ["w0"] * 3
    assert [(line.steps, line.tokens, line.passes, line.gain) for line in lines] == [(40, 9000, 2.5, -0.01)] * 3
    assert [line.load_s for line in lines] == [0.04] * 3
    assert sum(line.seconds for line in lines) == pytest.approx(trained_s, abs=0.2)


async def test_in_kubernetes_it_writes_under_the_name_of_its_pod(tmp_path: Path) -> None:
    settings = KubernetesSettings(namespace="n", pod="tlt-coordinator-1")
    config = CONFIG.model_copy(update={"journal": tmp_path, "kubernetes": settings})
    with CoordinatorJournal.open(config, Clock().now) as journal:
        journal.leads(True)
    (found,) = journals_in(tmp_path)
    assert (found.service, found.id) == ("coordinator", "tlt-coordinator-1")


async def test_a_directory_that_cannot_be_used_stops_no_coordinator(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with CoordinatorJournal.open(CONFIG.model_copy(update={"journal": tmp_path / "file"}), Clock().now) as journal:
        journal.leads(True)
