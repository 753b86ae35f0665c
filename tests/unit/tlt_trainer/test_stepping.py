"""Optimizer steps in pieces, between which the device can be taken back."""

from collections import Counter
from functools import partial

import pytest
import torch

from tests.unit.tlt_trainer.inline import InlineDevice
from tests.unit.tlt_trainer.tiny import CPU, TinyPolicy, frames_of
from tlt_trainer.data.pack import collate
from tlt_trainer.learner import Learner
from tlt_trainer.lease.pieces import stepped


def _with_gradients(policy: TinyPolicy) -> Learner:
    learner = Learner(policy.form, CPU)
    learner.share(policy.shared)
    while not learner.step_is_due:
        learner.micro_step(collate(frames_of(policy, 4), CPU), steps=False)
    return learner


@pytest.mark.parametrize("pieces", [1, 3, 9])
async def test_a_lease_that_ends_amid_a_step_leaves_the_rest_to_the_next(policy: TinyPolicy, pieces: int) -> None:
    whole, divided, device = _with_gradients(policy), _with_gradients(policy), InlineDevice()
    whole.step()
    left = [True] * pieces
    began = Counter[str]()
    begins = partial(began.update, ["piece"])
    await stepped(device, divided, begins=begins, allowed=lambda: bool(left) and left.pop())
    assert began["piece"] == pieces
    assert divided.step_is_due
    assert divided.counters.steps == 0
    assert device.begun == {"take": pieces}
    await stepped(device, divided, begins=begins, allowed=lambda: True)
    assert not divided.step_is_due
    assert divided.counters == whole.counters
    for name, tensor in whole.state().weights.items():
        assert torch.equal(divided.state().weights[name], tensor), name
    for name, tensor in whole.averaged().items():
        assert torch.equal(divided.averaged()[name], tensor), name


async def test_a_step_that_is_not_due_is_not_taken(policy: TinyPolicy) -> None:
    learner, device = Learner(policy.form, CPU), InlineDevice()
    await stepped(device, learner, begins=lambda: None, allowed=lambda: True)
    assert device.begun == {}


async def test_what_is_left_of_a_step_can_be_discarded(policy: TinyPolicy) -> None:
    learner = _with_gradients(policy)
    assert not learner.step_piece()
    learner.discard()
    assert not learner.step_is_due
    assert learner.counters.steps == 0
