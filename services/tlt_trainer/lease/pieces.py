"""Work on many tensors as device calls of one tensor each, so that the device can be taken back between two of them."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from torch import Tensor

from tlt_common.telemetry import metrics
from tlt_trainer.drafter.values import copied
from tlt_trainer.learned import Snapshot
from tlt_trainer.learner import Learner
from tlt_trainer.lease.device import TrainingDevice, wait_for

T = TypeVar("T")


async def in_pieces(
    device: TrainingDevice, call: Callable[[T], Tensor], items: Mapping[str, T], *, allowed: Callable[[], bool]
) -> dict[str, Tensor] | None:
    """Return the results of `call` by name, or None if the device was taken back before the last one."""
    found: dict[str, Tensor] = {}
    for name, item in items.items():
        if not allowed():
            return None
        found[name] = await device.run(call, item)
    return found


async def placed(
    device: TrainingDevice, weights: Mapping[str, Tensor], *, allowed: Callable[[], bool]
) -> dict[str, Tensor] | None:
    """Return weights on the device, without a copy if they are there already; None if it was taken back meanwhile."""

    def place(tensor: Tensor) -> Tensor:
        return tensor.to(device.torch)

    return await in_pieces(device, place, weights, allowed=allowed)


async def copies(device: TrainingDevice, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return copies on the CPU."""
    return {name: await device.run(copied, tensor) for name, tensor in tensors.items()}


async def snapshot_of(device: TrainingDevice, state: Snapshot, *, allowed: Callable[[], bool]) -> Snapshot | None:
    """Return a copy of a learner's state, or None if it was given up meanwhile."""
    weights = await in_pieces(device, copied, state.weights, allowed=allowed)
    average = await in_pieces(device, copied, state.average, allowed=allowed)
    optimizer = await in_pieces(device, copied, state.optimizer, allowed=allowed)
    if weights is None or average is None or optimizer is None:
        return None
    return replace(state, weights=weights, average=average, optimizer=optimizer)


async def stepped(
    device: TrainingDevice, learner: Learner, *, begins: Callable[[], None], allowed: Callable[[], bool]
) -> None:
    """
    Take the optimizer step that is due, if any, or complete one that has begun.

    A step that is interrupted stays due, and its rest is the first thing of the next lease.

    Args:
        device: Device of the learner.
        learner: Learner.
        begins: Called in the device's thread before every piece.
        allowed: Whether the device may be used; asked before every piece.
    """

    def take() -> bool:
        begins()
        with device.training():
            is_done = learner.step_piece()
            wait_for(device.torch)  # a Preempt would otherwise wait for all pieces, launched by then
            return is_done

    while learner.step_is_due and allowed():
        if await device.run(take):
            metrics.TRAINING_STEPS.inc()
