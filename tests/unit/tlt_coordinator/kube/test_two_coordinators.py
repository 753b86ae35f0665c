"""
Several coordinators at once over one ConfigMap, in whatever order requests, responses, reports and orders arrive.

More than can happen: a device obeys all coordinators at the same time, and what a process has sent arrives also after
its end.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

import looptime
import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from tests.fakes.kube import FakeKube, FakeServer
from tlt_common.domain.fleet import Lease, Revocation, WorkerHello, WorkerState, WorkerStatus
from tlt_common.domain.ids import Epoch, WorkerId
from tlt_common.errors import UnavailableError
from tlt_coordinator.clock import Clock
from tlt_coordinator.config import CoordinatorConfig, KubernetesSettings, LendingPolicy
from tlt_coordinator.coordinator import Coordinator
from tlt_coordinator.kube.api import AwayError, ConfigMapObject
from tlt_coordinator.kube.cluster import Cluster
from tlt_coordinator.kube.config_map_state import decoded
from tlt_coordinator.outbox import Order
from tlt_coordinator.registry import WorkerSession
from tlt_worker.lending.device_lease import DeviceLease

DEVICES, PROCESSES = 3, 3
BLOCK, TOTALS_EVERY_S = 4, 3.0
"""Epochs reserved at once, and seconds between two writes of sums: so few that there is always something to write."""
NAME = KubernetesSettings(namespace="rl", pod="c").config_map
CONFIG = CoordinatorConfig(spot=LendingPolicy(settle_s=0.0, max_trainers=DEVICES))

number = st.integers(0, 9)
rarely = st.sampled_from([False, False, False, True])


@dataclass
class HeldKube(FakeKube):
    """Requests and responses arrive when the test says so, also those of callers that have given up."""

    held: list[asyncio.Future[bool]] = field(default_factory=list)
    is_calm: bool = False

    def be_calm(self, is_calm: bool) -> None:
        """Let everything arrive at once from now on, and what is held; or no longer."""
        self.is_calm = is_calm
        for passing in self.held if is_calm else ():
            if not passing.done():
                passing.set_result(True)

    async def create_config_map(self, name: str, data: Mapping[str, str]) -> ConfigMapObject:
        return await self._sent(super().create_config_map(name, data))

    async def replace_config_map(self, name: str, found: ConfigMapObject) -> ConfigMapObject:
        return await self._sent(super().replace_config_map(name, found))

    async def _sent(self, call: Coroutine[None, None, ConfigMapObject]) -> ConfigMapObject:
        sending = asyncio.ensure_future(call)
        sending.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(sending)

    async def _arrive(self, verb: str, resource: str, name: str) -> None:
        await self._passed(verb, resource)
        await super()._arrive(verb, resource, name)

    async def _answer(self, verb: str, resource: str) -> None:
        await self._passed(verb, resource)
        await super()._answer(verb, resource)

    async def _passed(self, verb: str, resource: str) -> None:
        if self.is_calm:
            return
        passing = asyncio.get_running_loop().create_future()
        self.held.append(passing)
        try:
            if not await passing:
                raise AwayError(verb, resource, "lost")
        finally:
            self.held.remove(passing)


class BlindKube(HeldKube):
    """An API server that does not compare versions."""

    async def replace_config_map(self, name: str, found: ConfigMapObject) -> ConfigMapObject:
        await self._arrive("update", "configmaps", name)
        return await self._keep("update", name, found)


class Process:
    """One coordinator, from its start to its end."""

    def __init__(self, number: int, kube: HeldKube) -> None:
        self.number = number
        self.kube = kube
        self.coordinator: Coordinator | None = None
        self.sessions: dict[int, WorkerSession] = {}
        self.epochs: list[Epoch] = []
        self.task = asyncio.ensure_future(self._run())

    @property
    def serves(self) -> bool:
        return self.coordinator is not None and not self.task.done()

    async def _run(self) -> None:
        cluster, clock = Cluster(self.kube, KubernetesSettings(namespace="rl", pod=f"c-{self.number}")), Clock()
        clock._offset_s = 1.7e9  # virtual time is that of the calendar
        self.coordinator = Coordinator(CONFIG, await cluster.open(clock.now), clock)
        async with asyncio.TaskGroup() as parts:
            parts.create_task(cluster.run(self.coordinator))
            await self.coordinator.run()


class Device:
    """A worker's device, with the worker's own rules for leases."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.running = 0
        self.lease = DeviceLease()
        self.taken: list[Epoch] = []

    def obey(self, order: Order) -> None:
        now_s = asyncio.get_running_loop().time()
        match order:
            case Lease(epoch=epoch):
                if self.lease.offer(order, now_s, wanted=not self.running) and [epoch] != self.taken[-1:]:
                    self.taken.append(epoch)
            case Revocation():
                if self.lease.revoked_by(order):
                    self.lease.end()

    def status(self) -> WorkerStatus:
        if self.running or asyncio.get_running_loop().time() >= self.lease.expires_at_s:
            self.lease.end()
        epoch = self.lease.epoch
        state = WorkerState.ROLLOUT if self.running else WorkerState.TRAINING if epoch else WorkerState.IDLE
        return WorkerStatus(state=state, running=self.running, epoch=epoch, trainer_ready=True)


class Coordinators(RuleBasedStateMachine):
    """Processes come and go, and messages move."""

    kube: type[HeldKube] = HeldKube

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr("tlt_coordinator.state.EPOCH_BLOCK", BLOCK)
        self.patch.setattr("tlt_coordinator.state.TOTALS_EVERY_S", TOTALS_EVERY_S)
        self.runner = asyncio.Runner(loop_factory=looptime.new_event_loop)
        self.server = FakeServer()
        self.processes: list[Process] = []
        self.devices = [Device(number) for number in range(DEVICES)]
        self.granted: dict[Epoch, tuple[int, int]] = {}
        self.was_deleted = False

    @initialize()
    def the_first_process_starts(self) -> None:
        self.a_process_starts()

    @rule()
    def a_process_starts(self) -> None:
        if sum(not process.task.done() for process in self.processes) < PROCESSES:
            self._do(lambda: self.processes.append(Process(len(self.processes), self.kube(self.server))), wait_s=1.0)

    @rule(which=number, really=rarely)
    def a_process_is_killed(self, which: int, really: bool) -> None:
        if really:
            self._do(self._process(which).task.cancel)

    @rule(which=number, lost=rarely)
    def a_message_arrives_or_is_lost(self, which: int, lost: bool) -> None:
        held = [passing for process in self.processes for passing in process.kube.held if not passing.done()]
        if held:
            self._do(lambda: held[which % len(held)].set_result(not lost))

    @rule(really=rarely)
    def somebody_deletes_the_config_map(self, really: bool) -> None:
        if really:
            self.server.config_maps.clear()
            self.was_deleted = True

    @rule(device=number, running=st.integers(0, 1))
    def requests_come_and_go(self, device: int, running: int) -> None:
        self.devices[device % DEVICES].running = running

    @rule(which=number, device=number)
    def a_report_and_an_order_arrive(self, which: int, device: int) -> None:
        self._do(lambda: self._meet(self._process(which), self.devices[device % DEVICES]))

    @rule(which=number, seconds=st.integers(1, 4))
    def a_process_reaches_all_for_some_seconds(self, which: int, seconds: int) -> None:
        self._live([self._process(which)], seconds)

    @rule(passed_s=st.sampled_from([0.1, 1.0, 6.0, 11.0]))
    def time_passes(self, passed_s: float) -> None:
        self._do(lambda: None, wait_s=passed_s)

    def teardown(self) -> None:
        """Once every message arrives, one coordinator is left, and the others say why they ended."""
        try:
            self._live(self.processes, 6)
            assert sum(process.serves for process in self.processes) <= 1
            for process in self.processes:
                if process.task.done() and not process.task.cancelled():
                    with pytest.raises(UnavailableError, match=r"another coordinator \(c-|was deleted"):
                        raise _only(process.task.exception())
        finally:
            self.runner.close()
            self.patch.undo()

    def _process(self, which: int) -> Process:
        return self.processes[which % len(self.processes)]

    def _do(self, act: Callable[[], object], *, wait_s: float = 0.0) -> None:
        """Do something, let time pass, let everything follow, and check."""

        async def run() -> None:
            act()
            await asyncio.sleep(wait_s)
            for _ in range(30):
                await asyncio.sleep(0)

        self.runner.run(run())
        self._check()

    def _live(self, processes: list[Process], seconds: int) -> None:
        """Let these processes reach the API server and all devices."""
        for process in processes:
            self._do(partial(process.kube.be_calm, True))
        for _ in range(4 * seconds):
            for process in processes:
                for device in self.devices:
                    self._do(partial(self._meet, process, device))
            self._do(lambda: None, wait_s=0.25)
        for process in processes:
            process.kube.be_calm(False)

    def _meet(self, process: Process, device: Device) -> None:
        """A worker connects, if it has not, obeys the next order and reports."""
        if not process.serves:
            return
        assert process.coordinator is not None
        if device.number not in process.sessions:
            worker_id = WorkerId(f"w{device.number}")
            hello = WorkerHello(worker_id=worker_id, address="host:1", model="m", device="cpu", max_running=8)
            process.sessions[device.number] = process.coordinator.join(hello)
        order = process.sessions[device.number].outbox.take()
        if isinstance(order, Lease):
            owner = self.granted.setdefault(order.epoch, (process.number, device.number))
            assert owner == (process.number, device.number), f"epoch {order.epoch} was granted twice"
            process.epochs.append(order.epoch)
        if order is not None:
            device.obey(order)
        process.coordinator.report(process.sessions[device.number], device.status())

    def _check(self) -> None:
        for device in self.devices:
            assert device.taken == sorted(set(device.taken)), "a device took up an older lease"
        ranges = sorted((min(process.epochs), max(process.epochs)) for process in self.processes if process.epochs)
        for (_, last), (first, _) in pairwise(ranges):
            assert last < first, "an older coordinator has the later epochs"
        if ranges and not self.was_deleted:
            newest = decoded(self.server.config_maps[NAME].data, NAME).reserved_epoch
            assert ranges[-1][1] <= newest, "an epoch was granted that was not reserved"


def _only(error: BaseException | None) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        (error,) = error.exceptions
    assert error is not None
    return error


TRIED = settings(max_examples=40, stateful_step_count=40, deadline=None)
TestCoordinators = Coordinators.TestCase
TestCoordinators.settings = TRIED


class Blind(Coordinators):
    kube = BlindKube


def test_the_machine_finds_what_goes_wrong_without_versions() -> None:
    alike = settings(TRIED, max_examples=300, database=None, phases=[Phase.generate], derandomize=True)
    with pytest.raises(AssertionError, match=r"granted|later epochs|older lease|assert [23] <= 1"):
        run_state_machine_as_test(Blind, settings=alike)
