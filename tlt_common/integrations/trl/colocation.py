"""A trainer on the rollout workers' own devices: it has them while it learns, and the workers while they generate."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Final

from tlt_common.client import BlockingClient

LIMIT_S: Final = 600.0
"""Seconds after which the workers resume if the trainer has died. The client renews it while the process lives."""


class SharedDevices:
    """
    Passes the devices between a trainer and the workers. All methods are called in all processes of the trainer.

    Weights are resumed first, so that new ones can be published while the trainer still holds its own; the KV cache
    follows once they are.
    """

    def __init__(self, client: Callable[[], BlockingClient]) -> None:
        self._client = client
        self._release = ExitStack()
        """What is released, in the main process; closing it resumes."""

    def before_publication(self, trainer: Any) -> None:
        """Resume the weights of the workers, once no process learns any more."""
        _empty_cache()
        trainer.accelerator.wait_for_everyone()
        if trainer.accelerator.is_main_process:
            self._client().resume(["weights"])

    def before_rollout(self, trainer: Any) -> None:
        """Resume the rest."""
        _empty_cache()  # what the state dict was gathered in
        trainer.accelerator.wait_for_everyone()
        self._release.close()
        trainer.accelerator.wait_for_everyone()

    def after_rollout(self, trainer: Any) -> None:
        """Release the workers' devices, once no process waits for responses any more."""
        trainer.accelerator.wait_for_everyone()
        if trainer.accelerator.is_main_process:
            self._release.enter_context(self._client().released(limit_s=LIMIT_S))
        trainer.accelerator.wait_for_everyone()

    def close(self) -> None:
        """Resume everything. Idempotent."""
        self._release.close()


def _empty_cache() -> None:
    """Return the memory that the trainer has freed to the device: the workers are other processes."""
    from accelerate.utils.memory import clear_device_cache

    clear_device_cache()
