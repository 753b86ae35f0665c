"""The right to train: whose epoch counts, and until when. Pure."""

from dataclasses import dataclass, replace

from tlt_common.domain.ids import Epoch
from tlt_common.errors import StaleEpochError


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseState:
    """The newest lease seen, and whether it still holds."""

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
