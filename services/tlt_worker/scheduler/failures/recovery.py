"""
Decides whether an engine can continue after an exception, and restores its state.

It cannot, and the process ends as without this package, if the device no longer responds to a synchronization, if not
all ranks failed at the same point, or if restoring the state fails, too.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from tlt_common.telemetry.log import get_logger

log = get_logger(__name__)


class UnrecoverableError(Exception):
    """The engine's state is no longer trustworthy. Nothing catches it: the process ends."""


@contextmanager
def recovery(scheduler: Any, error: Exception, point: str, concerned: Iterable[str] = ()) -> Iterator[None]:
    """
    Restore the state after `error` within the block.

    Every rank must get here before any continues, since ranks that run different rounds would deadlock. If a rank did
    not fail, it never gets here, and the others end (`Ranks.failed_together`).

    Args:
        scheduler: SGLang's scheduler.
        error: What was raised.
        point: Names the step that failed; the same on all ranks.
        concerned: Ids of the requests concerned, in an order that is the same on all ranks.

    Raises:
        UnrecoverableError: The engine must end.
    """
    if isinstance(error, UnrecoverableError):
        raise error
    log.error("step_failed", point=point, exc_info=error)
    try:
        _require_trust(scheduler, point, concerned)
        yield
    except UnrecoverableError:
        raise
    except Exception as failed:  # noqa: BLE001 - converted
        raise UnrecoverableError(f"{point}: {error!r}, and then {failed!r}") from error


@contextmanager
def skipping(event: str, **fields: Any) -> Iterator[None]:
    """Log an exception of the block under `event` and continue: nothing else depends on the block."""
    try:
        yield
    except Exception:
        log.exception(event, **fields)


def _require_trust(scheduler: Any, point: str, concerned: Iterable[str]) -> None:
    if scheduler.server_args.pp_size > 1:
        raise UnrecoverableError(f"{point}: stages of a pipeline run different rounds")
    if scheduler.device != "cpu":
        torch.get_device_module(scheduler.device).synchronize()  # a device that failed raises the same error again
    if not scheduler.draft_worker.ranks.failed_together([point, scheduler.forward_ct, *concerned]):
        raise UnrecoverableError(f"{point}: not all ranks failed, or not at the same point")
