"""The right to train: the current epoch and its expiry."""

import asyncio
from dataclasses import dataclass, replace

from tlt_common.domain.ids import Epoch
from tlt_common.errors import StaleEpochError


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseState:
    """The newest lease seen, and whether it is still held. Pure."""

    epoch: Epoch = Epoch(0)
    ended: bool = True
    """Whether it was revoked. Expiry does not count: a late renewal of the newest lease is accepted."""
    expires_at_s: float = 0.0

    def started(self, epoch: Epoch, ttl_s: float, now_s: float) -> "LeaseState":
        """
        Begin a lease, or extend the current one.

        Raises:
            StaleEpochError: A newer lease was seen, or this one was revoked.
        """
        if epoch < self.epoch or (epoch == self.epoch and self.ended):
            raise StaleEpochError(f"epoch is {epoch}; accepted: above {self.epoch - (not self.ended)}", field="epoch")
        return LeaseState(epoch=epoch, ended=False, expires_at_s=now_s + ttl_s)

    def preempted(self, epoch: Epoch) -> "LeaseState":
        """
        Revoke a lease. Idempotent, also for a lease that was never seen.

        Raises:
            StaleEpochError: A newer lease is held, which this call does not end.
        """
        if epoch < self.epoch:
            raise StaleEpochError(f"epoch is {epoch}; accepted: {self.epoch}, the newest seen", field="epoch")
        return replace(self, epoch=epoch, ended=True)

    def holds(self, now_s: float) -> bool:
        """Return whether training is allowed now."""
        return not self.ended and now_s < self.expires_at_s


class TrainingLease:
    """The lease of this process. All code that uses the device checks it first."""

    def __init__(self) -> None:
        self._state = LeaseState()
        self.granted = asyncio.Event()
        """Set while a lease is held; cleared soon after it ends."""

    @property
    def epoch(self) -> Epoch:
        """The newest epoch seen."""
        return self._state.epoch

    def holds(self) -> bool:
        """Return whether the device may be used to train now."""
        return self.granted.is_set() and self._holds()

    def is_current(self, epoch: Epoch) -> bool:
        """Return whether this lease was started and has not ended, so that training data may be loaded."""
        return epoch == self.epoch and self._holds()

    def start(self, epoch: Epoch, ttl_s: float) -> None:
        """Begin or extend a lease; see `LeaseState.started`. A new lease is held once `grant` is called."""
        self._state = self._state.started(epoch, ttl_s, asyncio.get_running_loop().time())

    def grant(self) -> None:
        """Wake the tasks that wait for a lease, unless it has ended."""
        if self._holds():
            self.granted.set()

    def suspend(self) -> None:
        """Suspend training until `grant`, because something that it needs is about to be replaced."""
        self.granted.clear()

    def preempt(self, epoch: Epoch) -> None:
        """Revoke a lease; see `LeaseState.preempted`."""
        self._state = self._state.preempted(epoch)
        self.granted.clear()

    def settle(self) -> None:
        """Clear `granted` after the lease expired, unless a new one was granted meanwhile."""
        if not self.holds():
            self.granted.clear()

    def _holds(self) -> bool:
        return self._state.holds(asyncio.get_running_loop().time())
