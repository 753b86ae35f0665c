"""State of the rollout endpoint and usage of its fleet's devices."""

from dataclasses import dataclass

from tlt_common.domain.ids import DrafterVersion, PolicyVersion
from tlt_common.domain.pause import NO_PAUSE, Pause


@dataclass(frozen=True, slots=True, kw_only=True)
class Bubbles:
    """Device-seconds of a fleet without rollouts, since the coordinator started."""

    total_s: float = 0.0
    """Training, switching, updating and idle; see `BUBBLES` of fleets."""
    training_s: float = 0.0
    """Time spent on drafter training."""

    @property
    def utilisation(self) -> float:
        """Share of the bubbles that trained the drafter; 0 if there were none."""
        return self.training_s / self.total_s if self.total_s > 0.0 else 0.0


NO_BUBBLES = Bubbles()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerInfo:
    """State of the rollout endpoint."""

    model: str
    vocab_size: int
    context_length: int
    policy_version: PolicyVersion
    drafter_version: DrafterVersion
    workers: int
    queued: int
    running: int
    server_version: str
    pause: Pause = NO_PAUSE
    released: bool = False
    """Whether a trainer has the devices of a worker (`Client.release`): requests queue."""
    bubbles: Bubbles = NO_BUBBLES
    """As of the gateway's last report to the coordinator; zero without one."""
