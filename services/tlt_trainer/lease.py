"""The right to train: whose epoch counts, and until when."""

import asyncio
from dataclasses import dataclass, replace

from tlt_common.domain.ids import Epoch
from tlt_common.errors import StaleEpochError


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseState:
    """The newest lease seen, and whether it still holds. Pure."""

    epoch: Epoch = Epoch(0)
    ended: bool = True
    """Taken back. Running out does not count: a late renewal of the newest lease is good."""
    expires_at_s: float = 0.0

    def started(self, epoch: Epoch, ttl_s: float, now_s: float) -> "LeaseState":
        """
        Begin a lease, or extend the one held.

        Raises:
            StaleEpochError: A newer lease was seen, or this one was taken back.
        """
        if epoch < self.epoch or (epoch == self.epoch and self.ended):
            raise StaleEpochError(f"epoch is {epoch}; accepted: above {self.epoch - (not self.ended)}", field="epoch")
        return LeaseState(epoch=epoch, ended=False, expires_at_s=now_s + ttl_s)

    def preempted(self, epoch: Epoch) -> "LeaseState":
        """
        Take a lease back. Repeating it, or taking back what was never seen, is harmless.

        Raises:
            StaleEpochError: A newer lease is held, which this does not end.
        """
        if epoch < self.epoch:
            raise StaleEpochError(f"epoch is {epoch}; accepted: {self.epoch}, the newest seen", field="epoch")
        return replace(self, epoch=epoch, ended=True)

    def holds(self, now_s: float) -> bool:
        """Say whether training is allowed now."""
        return not self.ended and now_s < self.expires_at_s


class Permit:
    """The lease of this process. Everything that computes looks at it before it does."""

    def __init__(self) -> None:
        self._state = LeaseState()
        self.granted = asyncio.Event()
        """Set while there is something to do under a lease; cleared soon after it ended."""

    @property
    def epoch(self) -> Epoch:
        """The newest seen."""
        return self._state.epoch

    def holds(self) -> bool:
        """Say whether the device may be used now."""
        return self._state.holds(asyncio.get_running_loop().time())

    def start(self, epoch: Epoch, ttl_s: float) -> None:
        """Begin or extend; see `LeaseState.started`. `grant` lets the waiting know."""
        self._state = self._state.started(epoch, ttl_s, asyncio.get_running_loop().time())

    def grant(self) -> None:
        """Wake who waits for a lease, if it still holds."""
        if self.holds():
            self.granted.set()

    def preempt(self, epoch: Epoch) -> None:
        """Take back; see `LeaseState.preempted`."""
        self._state = self._state.preempted(epoch)
        self.granted.clear()

    def settle(self) -> None:
        """Note that a lease ran out; one that came meanwhile stands."""
        if not self.holds():
            self.granted.clear()
