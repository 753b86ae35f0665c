"""Latencies that a worker sees: from a lease to the first training, and from a revocation to a free device."""

import time

from tlt_common.domain.ids import Epoch
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger
from tlt_trainer.lease.learner_turn import Occupation

log = get_logger(__name__)


class LeaseTimes:
    """Measures both as metrics and log events. Monotonic times are the machine's, comparable across processes."""

    def __init__(self) -> None:
        self._granted: tuple[Epoch, float] | None = None
        self._began_s: float | None = None

    def granted(self, epoch: Epoch) -> None:
        """Record that a lease was received. A renewal changes nothing."""
        if self._granted is None or self._granted[0] != epoch:
            self._granted, self._began_s = (epoch, time.monotonic()), None

    def begin(self) -> None:
        """
        Record, in the device's thread, the first training under a lease.

        That is a micro-step, or the rest of an optimizer step that the last lease left incomplete.
        """
        if self._began_s is None:
            self._began_s = time.monotonic()
            if self._granted is not None:
                epoch, granted_s = self._granted
                metrics.TRAINER_BEGIN_SECONDS.observe(self._began_s - granted_s)
                log.info("training_began", epoch=epoch, monotonic_s=self._began_s)

    def freed(self, epoch: Epoch, doing: Occupation, seconds: float) -> None:
        """Record that the device is free, and how long after the request."""
        metrics.TRAINER_FREE_SECONDS.labels(doing=doing.value).observe(seconds)
        log.info("device_freed", epoch=epoch, doing=doing.value, seconds=round(seconds, 4))
