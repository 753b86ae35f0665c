"""The base is scored once on the same frames; everything else each time."""

import pytest

from tests.unit.tlt_trainer.fleet_trainer import SCORE, Trainer
from tests.unit.tlt_trainer.tiny import TinyPolicy, frames_of


@pytest.fixture
def candidates(one: Trainer, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The weights that were scored, other than the own."""
    seen: list[object] = []
    candidate = one.learner.candidate

    def counted(weights):  # type: ignore[no-untyped-def]
        seen.append(weights)
        return candidate(weights)

    monkeypatch.setattr(one.learner, "candidate", counted)
    return seen


async def test_the_base_is_scored_again_only_if_something_changed(
    one: Trainer, policy: TinyPolicy, candidates: list[object]
) -> None:
    one.train(1, 3)
    one.pool.add(frames_of(policy, 100, seed=9))
    assert await one.sharing.publish(SCORE, None)
    base = one.learner.base()
    first = await one.evaluator.scores(None, base)
    one.train(1, 3)
    second = await one.evaluator.scores(None, base)
    assert first is not None
    assert second is not None
    assert second[1] == first[1]
    assert second[0] != first[0]
    assert len(candidates) == 1
    one.learner.share(policy.shared)  # another policy
    assert await one.evaluator.scores(None, base)
    assert len(candidates) == 2
    one.pool.add(frames_of(policy, 100, seed=10))  # other held-out frames
    assert await one.evaluator.scores(None, base)
    assert len(candidates) == 3
    assert await one.sharing.publish(SCORE, None)  # another base
    assert await one.evaluator.scores(None, one.learner.base())
    assert len(candidates) == 4
    assert await one.evaluator.scores(one.learner.weights(), one.learner.weights())
    assert len(candidates) == 6
