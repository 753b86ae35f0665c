"""Recovery of a trainer from a failed allocation, so that the engine does not run short of memory."""

from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger
from tlt_trainer.data.feed import Feed
from tlt_trainer.learner import Learner
from tlt_trainer.lease.device import TrainingDevice, release_memory
from tlt_trainer.lease.learner_turn import Occupation

log = get_logger(__name__)


class ShortMemory:
    """Returns memory to the device and reduces later allocations."""

    def __init__(self, learner: Learner, device: TrainingDevice, feed: Feed) -> None:
        self._learner = learner
        self._device = device
        self._feed = feed

    async def give_up(self, doing: Occupation) -> None:
        """
        Discard an incomplete optimizer step, return unused memory, and halve the batches.

        Call it after the `except` block: the traceback holds the tensors of the failed call.
        """
        limit = self._feed.shrink()
        await self._device.run(self._release)
        metrics.TRAINER_OUT_OF_MEMORY.inc()
        log.warning("trainer_out_of_memory", doing=doing.value, batch_tokens=limit)

    def _release(self) -> None:
        self._learner.discard()
        release_memory(self._learner.device)
