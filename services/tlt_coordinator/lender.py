"""Grants, renews and revokes leases, a bounded number of workers at a time. Pure: times come from the caller."""

from dataclasses import dataclass

from tlt_common.domain.ids import DrafterVersion, Epoch
from tlt_coordinator.config import LendingPolicy
from tlt_coordinator.lending.decision import Reason
from tlt_coordinator.lending.orders import FleetView, Revoke, RoleChange, orders
from tlt_coordinator.queues import Queues
from tlt_coordinator.registry import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class LendingTerms:
    """Current conditions for lending."""

    enabled: bool
    """Whether workers are lent at all."""
    policy: LendingPolicy
    last_epoch: Epoch
    """Highest epoch ever granted."""
    reserved_epoch: Epoch
    """Highest epoch that may be granted."""
    drafter: DrafterVersion
    """Newest drafter; 0 if none was published."""


class Lender:
    """
    Args:
        registry: The workers, which receive the orders.
        queues: The queued requests.
    """

    def __init__(self, registry: Registry, queues: Queues) -> None:
        self._registry = registry
        self._queues = queues

    def step(self, now_s: float, terms: LendingTerms) -> tuple[RoleChange, ...]:
        """Decide about a bounded number of workers; return the changes."""
        queued = self._queues.queued(now_s)
        recalled = self._registry.least(self._recalls(queued, now_s, terms))
        fleet = FleetView(
            workers=self._registry.to_decide(now_s, terms.policy, ends=not terms.enabled, also=recalled),
            settled=self._registry.settled(now_s, terms.policy) if terms.enabled and queued == 0 else (),
            queued=queued,
            lending=terms.enabled,
            last_epoch=terms.last_epoch,
            reserved_epoch=terms.reserved_epoch,
            drafter=terms.drafter,
            recalled=frozenset(worker.worker_id for worker in recalled),
        )
        changes = orders(fleet, now_s, terms.policy)
        self._registry.carry_out(changes, now_s)
        for change in changes:
            if isinstance(change, Revoke) and change.reason is Reason.QUEUE:
                self._queues.called_back()
        return changes

    def _recalls(self, queued: int, now_s: float, terms: LendingTerms) -> int:
        """
        Return the number of leases to end although their workers are free: as many as requests wait, or more than pay
        off.
        """
        if not terms.enabled:
            return 0
        if queued:
            return self._queues.to_call_back(now_s)
        return self._registry.measures.surplus(self._registry.loans, terms.policy, now_s)
