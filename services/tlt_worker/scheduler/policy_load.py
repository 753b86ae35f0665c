"""Keeps the scheduler alive if weights cannot be loaded."""

from collections.abc import Callable
from typing import Any


def report_failed_load(original: Callable[..., Any], self: Any, model_path: str, *args: Any, **kw: Any) -> Any:
    """
    Wrap the loading of weights from disk: report an error of SGLang's rollback instead of ending the process.

    The rollback reads the new files again, and fails again if they are damaged. The worker then loads the served
    weights; until it does, generation is paused.
    """
    served = self.model_config.model_path
    try:
        done, message = original(self, model_path, *args, **kw)
    except Exception as error:  # noqa: BLE001 - reported to the worker, which loads the served weights or ends the engine
        done, message = False, f"{type(error).__name__}: {error}"
    if not done:
        self.model_config.model_path = served
    return done, message
