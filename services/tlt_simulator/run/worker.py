"""A simulated rollout worker: its batch, device state and lease, with the product's rules."""

from collections.abc import Callable
from contextlib import ExitStack

from tlt_common.domain.fleet import Lease, Revocation, WorkerHello, WorkerState, WorkerStatus
from tlt_common.domain.ids import DrafterVersion, PolicyVersion, WorkerId
from tlt_coordinator.registry import WorkerSession
from tlt_gateway.workers.routing import Candidate
from tlt_simulator.costs.model import CostModel
from tlt_simulator.run.batch import DecodedBatch, SimRequest
from tlt_simulator.run.events import Events
from tlt_simulator.scenario import RolloutFleet
from tlt_worker.activity import Activity, Tenancy
from tlt_worker.lending.device_lease import DeviceLease

ROOM_SHARE = 0.9
"""Share of the KV cache in use from which a worker gets no more requests: those that it has grow."""


class SimWorker:
    """
    Args:
        number: Number of the worker in its fleet.
        fleet: The fleet it belongs to.
        costs: Costs of switches.
        events: Virtual time.
        on_turn: Called when its state changes.

    Attributes:
        session: Session of its stream to the coordinator.
        training_s: Seconds of its trainer's computation, on its first device.
        policy: Version of the weights.
        drafter: Version of the loaded drafter.
        seen: Called whenever its routing candidate for the gateway changes.
        gave_up: Whether its KV cache was full since the last request ended.
    """

    def __init__(
        self, number: int, fleet: RolloutFleet, costs: CostModel, events: Events, on_turn: Callable[["SimWorker"], None]
    ) -> None:
        self.number = number
        self.worker_id = WorkerId(f"w{number:05}")
        self.batch = DecodedBatch()
        self.lease = DeviceLease()
        self.activity = Activity()
        self.session: WorkerSession | None = None
        self.training_s = 0.0
        self.policy = PolicyVersion(0)
        self.drafter = DrafterVersion(0)
        self.gave_up = False
        self._training_since_s = 0.0
        self._fleet = fleet
        self._costs = costs
        self._events = events
        self._on_turn = on_turn
        self._busy = ExitStack()
        self._updating = ExitStack()
        self._tenant = 0
        self.seen: Callable[[Candidate], None] = lambda _: None
        self.activity.on_transition(self._turned)

    @property
    def hello(self) -> WorkerHello:
        """The identity that it sends to the coordinator."""
        return WorkerHello(
            worker_id=self.worker_id,
            address="simulated:0",
            model=self._costs.model,
            device=self._costs.device,
            max_running=self._fleet.slots,
            devices=self._fleet.gpus,
        )

    @property
    def is_full(self) -> bool:
        """Whether its KV cache has no room for another request."""
        return self.gave_up or self.batch.kv_tokens >= ROOM_SHARE * self._fleet.kv_room

    def status(self, *, gain: float | None, passes: float, resting: bool) -> WorkerStatus:
        """Return its status report."""
        state = self.activity.state
        return WorkerStatus(
            state=WorkerState.RESTING if resting and state is WorkerState.IDLE else state,
            running=len(self.batch),
            policy_version=self.policy,
            drafter_version=self.drafter,
            epoch=self.lease.epoch,
            trainer_ready=True,
            lent=self.activity.tenancy is not Tenancy.NONE,
            training_s=self.training_s + self._training_now_s,
            trainer_resting=resting,
            training_gain=gain,
            training_passes=passes,
            drafter_pause_s=self._costs.drafter_load_s.value if self.drafter else 0.0,
        )

    def run(self, request: SimRequest, *, prefill_s: float) -> None:
        """Run a request, taking the device back from the trainer. `batch.advance` must have been called."""
        now_s = self._events.now_s
        if self.lease.end():
            self._leave()
        if self.activity.tenancy is Tenancy.LEAVING:
            self.batch.stall(self._costs.lease_stop_s.value, now_s)
        self.batch.add(request, now_s, prefill_s=prefill_s)
        if len(self.batch) == 1:
            self._busy.enter_context(self.activity.request())
        self.changed()

    def dropped(self) -> None:
        """Record that the batch has fewer requests."""
        if not len(self.batch):
            self._busy.close()
        self.changed()

    def offer(self, lease: Lease, *, resting: bool) -> None:
        """Accept or decline a lease."""
        wanted = not self.activity.busy and not resting
        if self.lease.offer(lease, self._events.now_s, wanted=wanted):
            self._tenant += 1
            tenant = self._tenant
            self.activity.set_tenancy(Tenancy.ENTERING)
            self.changed()
            self._events.after(self._costs.lease_start_s.value, lambda: self._entered(tenant))

    def revoke(self, revocation: Revocation) -> None:
        """Return the device on the coordinator's request."""
        if self.lease.revoked_by(revocation):
            self.make_way()

    def make_way(self) -> None:
        """Take the device back from the trainer."""
        if self.lease.end():
            self._leave()

    def release(self, *, released: bool) -> None:
        """Give the devices to the RL trainer, or take them back."""
        self.make_way()
        self.activity.set_released(released=released)
        self.changed()

    def begin_update(self) -> None:
        """Load new weights until `end_update`."""
        self.make_way()
        self._updating.enter_context(self.activity.update())

    def end_update(self, version: PolicyVersion) -> None:
        """Serve the new weights."""
        self.policy = version
        self._updating.close()
        self.changed()

    def changed(self) -> None:
        """Report that its routing candidate has changed."""
        running, slots = len(self.batch), self._fleet.slots
        self.seen(
            Candidate(
                worker_id=self.worker_id,
                policy_version=self.policy,
                max_running=slots,
                slots=running if self.is_full else slots,
                assigned=running,
                training=self.activity.tenancy is not Tenancy.NONE,
            )
        )

    @property
    def _training_now_s(self) -> float:
        if self.activity.tenancy is not Tenancy.TRAINING or self.activity.state is not WorkerState.TRAINING:
            return 0.0
        return self._events.now_s - self._training_since_s

    def _entered(self, tenant: int) -> None:
        if tenant == self._tenant and self.activity.tenancy is Tenancy.ENTERING:
            self._training_since_s = self._events.now_s
            self.activity.set_tenancy(Tenancy.TRAINING)

    def _leave(self) -> None:
        self.training_s += self._training_now_s
        self._tenant += 1
        tenant = self._tenant
        self.activity.set_tenancy(Tenancy.LEAVING)
        self.changed()
        self._events.after(self._costs.lease_stop_s.value, lambda: self._left(tenant))

    def _left(self, tenant: int) -> None:
        if tenant == self._tenant:
            self.activity.set_tenancy(Tenancy.NONE)
            self.changed()

    def _turned(self, before: WorkerState, now: WorkerState) -> None:
        del before, now
        self._on_turn(self)
