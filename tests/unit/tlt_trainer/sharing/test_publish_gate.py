"""A first drafter must be faster than decoding without one, a later one better than the fleet's."""

import math

import pytest

from tests.unit.tlt_trainer.tiny import TinyPolicy
from tlt_trainer.config import PublishSettings
from tlt_trainer.drafter.score import Score
from tlt_trainer.sharing.publish_gate import PublishGate, draft_cost


def score(*accepted: float) -> Score:
    return Score(hits=(0.0,) * len(accepted), accepted=accepted)


def test_the_first_must_make_up_for_the_time_it_takes_to_draft() -> None:
    gate = PublishGate(PublishSettings(first_gain=1.0), 0.1)
    assert not gate.admits(score(0.2, 0.2, 0.2), None)  # 1.25 tokens in 1.3 rounds
    assert gate.admits(score(0.3, 0.2, 0.2), None)  # 1.37


def test_the_first_competes_with_what_the_engine_reaches_without_it() -> None:
    gate = PublishGate(PublishSettings(first_gain=1.0), 0.1)
    gate.note(1.6)  # n-gram drafts
    assert not gate.admits(score(0.6, 0.5, 0.4), None)  # 2.02 in 1.3
    assert gate.admits(score(0.7, 0.5, 0.4), None)  # 2.19
    gate.note(0.0)  # no rounds yet
    assert gate.admits(score(0.6, 0.5, 0.4), None)


def test_a_later_one_must_gain() -> None:
    gate = PublishGate(PublishSettings(gain=0.02), 0.1)
    gate.note(4.0)
    published = score(0.6, 0.5, 0.5)
    assert not gate.admits(score(0.605, 0.5, 0.5), published)
    assert gate.admits(score(0.62, 0.5, 0.5), published)


def test_no_gain_required_publishes_at_once() -> None:
    gate = PublishGate(PublishSettings(first_gain=0.0), 0.1)
    gate.note(3.0)
    assert gate.admits(score(0.0, 0.0, 0.0), None)


def test_drafting_costs_the_share_of_weights_that_it_reads(policy: TinyPolicy) -> None:
    weights = {name: math.prod(shape) for name, shape in policy.form.tensor_shapes().items()}
    fc = weights.pop("fc.weight")
    layer, head = sum(weights.values()), policy.form.vocab_size * policy.form.hidden_size
    expected = (layer + fc + head) / (32 * layer + head)
    assert draft_cost(policy.form, 32) == pytest.approx(expected, rel=0.01)  # it leaves out the norms
