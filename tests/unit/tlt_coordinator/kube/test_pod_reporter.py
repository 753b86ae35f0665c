"""What pods say of their workers, in virtual time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest

from tests.fakes.kube import FakeKube
from tlt_common.domain.fleet import Member, WorkerHello, WorkerState, WorkerStatus
from tlt_common.domain.ids import DrafterVersion, Epoch, WorkerId
from tlt_coordinator.kube.events import KubeEvents
from tlt_coordinator.kube.pod_metadata import ROLE_LABEL, Pods
from tlt_coordinator.kube.pod_reporter import MAX_RETRY_S, PodReporter
from tlt_coordinator.kube.refusals import Refusals

pytestmark = pytest.mark.looptime

SERVING = WorkerStatus(state=WorkerState.ROLLOUT, running=1)
TRAINING = WorkerStatus(state=WorkerState.TRAINING, epoch=Epoch(7), drafter_version=DrafterVersion(2))
DOWN = WorkerStatus(state=WorkerState.DOWN)


def member(pod: str, status: WorkerStatus = SERVING, worker: str = "") -> Member:
    hello = WorkerHello(
        worker_id=WorkerId(worker or pod), address="a:1", model="m", device="cpu", max_running=8, pod=pod
    )
    return Member(hello=hello, status=status)


@dataclass
class Fleet:
    """Workers that change when a test says so, and the pods they are in."""

    kube: FakeKube
    members: dict[str, Member] = field(default_factory=dict)

    async def say(self, pod: str, status: WorkerStatus, *, wait_s: float = 3.0) -> None:
        self.members[pod] = member(pod, status)
        await asyncio.sleep(wait_s)

    def role(self, pod: str = "p0") -> str | None:
        return self.kube.server.label(pod, ROLE_LABEL)

    def reported(self) -> list[tuple[str, int]]:
        return [(event.message, event.count) for event in self.kube.server.events.values()]


@asynccontextmanager
async def reporting(*pods: str) -> AsyncIterator[Fleet]:
    fleet = Fleet(FakeKube())
    for pod in pods:
        fleet.kube.server.add_pod(pod)
        fleet.members[pod] = member(pod)
    refusals = Refusals()
    reporter = PodReporter(
        fleet.kube, lambda seen: (seen, list(fleet.members.values())), KubeEvents(fleet.kube, refusals), refusals
    )
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(reporter.run())
        await asyncio.sleep(1.5)
        yield fleet
        running.cancel()


async def test_a_pod_says_the_role_the_epoch_and_the_drafter_of_its_worker() -> None:
    async with reporting("p0") as fleet:
        assert fleet.role() == "rollout"
        assert fleet.reported() == []
        await fleet.say("p0", TRAINING)
        assert fleet.role() == "training"
        annotations = fleet.kube.server.pods["p0"].annotations
        assert annotations == {"tlt.dev/epoch": "7", "tlt.dev/drafter-version": "2"}
        assert fleet.reported() == [("from rollout to training, epoch 7", 1)]


async def test_the_same_change_again_is_counted() -> None:
    async with reporting("p0") as fleet:
        for epoch in (7, 8, 9):
            await fleet.say("p0", replace(TRAINING, epoch=Epoch(epoch)))
            await fleet.say("p0", SERVING)
        assert fleet.reported() == [("from rollout to training, epoch 9", 3), ("from training to rollout, epoch 9", 3)]


async def test_an_event_that_expired_is_made_anew() -> None:
    async with reporting("p0") as fleet:
        await fleet.say("p0", TRAINING)
        fleet.kube.server.events.clear()
        await fleet.say("p0", SERVING)
        fleet.kube.server.events.clear()
        await fleet.say("p0", TRAINING)
        assert fleet.reported() == [("from rollout to training, epoch 7", 1)]


async def test_a_pod_is_patched_at_most_once_a_second_and_ends_with_the_latest() -> None:
    async with reporting("p0") as fleet:
        before = fleet.kube.count("patch", "pods")
        for _ in range(50):
            await fleet.say("p0", TRAINING, wait_s=0.1)
            await fleet.say("p0", SERVING, wait_s=0.1)
        await fleet.say("p0", TRAINING)
        assert fleet.kube.count("patch", "pods") - before <= 13
        assert fleet.role() == "training"


async def test_nothing_is_written_while_nothing_changes() -> None:
    async with reporting("p0", "p1") as fleet:
        before = len(fleet.kube.calls)
        await asyncio.sleep(200.0)
        assert len(fleet.kube.calls) == before


async def test_an_outage_is_sat_out_and_the_latest_role_is_told_afterwards() -> None:
    async with reporting("p0") as fleet:
        fleet.kube.away = True
        await fleet.say("p0", TRAINING, wait_s=300.0)
        assert len(fleet.kube.calls) < 30
        fleet.kube.away = False
        await asyncio.sleep(1.3 * MAX_RETRY_S)  # the delay has a jitter of a quarter
        assert fleet.role() == "training"
        assert fleet.reported() == [("from rollout to training, epoch 7", 1)]


async def test_a_pod_that_was_deleted_is_left_alone_and_its_successor_is_told() -> None:
    async with reporting("p0") as fleet:
        del fleet.kube.server.pods["p0"]
        await fleet.say("p0", DOWN)
        before = len(fleet.kube.calls)
        await asyncio.sleep(1000.0)
        assert len(fleet.kube.calls) == before
        fleet.kube.server.add_pod("p0")
        await fleet.say("p0", SERVING)
        assert fleet.role() == "rollout"


async def test_rights_that_are_missing_stop_nothing_and_are_tried_again_now_and_then() -> None:
    async with reporting("p0") as fleet:
        fleet.kube.refused = {("patch", "pods")}
        await fleet.say("p0", TRAINING, wait_s=600.0)
        assert fleet.kube.count("patch", "pods") < 15
        fleet.kube.refused.clear()
        await asyncio.sleep(61.0)
        assert fleet.role() == "training"


async def test_events_that_are_refused_do_not_keep_labels_from_being_set() -> None:
    async with reporting("p0") as fleet:
        fleet.kube.refused = {("create", "events")}
        await fleet.say("p0", TRAINING)
        assert fleet.role() == "training"


async def test_a_fleet_that_turns_as_one_is_told_soon() -> None:
    pods = [f"p{number}" for number in range(100)]
    async with reporting(*pods) as fleet:
        for pod in pods:
            fleet.members[pod] = member(pod, TRAINING)
        await asyncio.sleep(2.0)
        assert {fleet.role(pod) for pod in pods} == {"training"}


def test_workers_that_share_a_pod_share_its_badge() -> None:
    pods = Pods()
    shared = pods.see([member("p", TRAINING, "a"), member("p", SERVING, "b"), member("", SERVING, "c")])
    assert list(shared) == ["p"]
    assert (shared["p"].role, shared["p"].epoch, shared["p"].drafter_version) == ("training", 7, 0)


def test_a_worker_that_moved_changes_both_pods() -> None:
    pods = Pods()
    pods.see([member("p", TRAINING, "a"), member("p", SERVING, "b"), member("q", SERVING, "c")])
    moved = pods.see([member("q", TRAINING, "a")])
    assert {name: metadata.role for name, metadata in moved.items()} == {"p": "rollout", "q": "training"}
    assert list(pods.see([member("q", SERVING, "b")])) == ["q"]
