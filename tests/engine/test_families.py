"""Every family in the table passes the same suite: one tiny checkpoint, one engine."""

import json
from pathlib import Path

import pytest

from tests.engine import host, models
from tests.engine.scenes import family
from tests.engine.scenes.family import FamilyResult
from tests.loops import Loop
from tests.lossless import exact, judge
from tlt_worker.model.families import FAMILIES

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]

CASES = [
    pytest.param((row.architecture, kind), id=name, marks=pytest.mark.xdist_group(name))
    for row in FAMILIES.values()
    for kind in row.drafters
    if (name := f"{row.model_type}-{kind}")
]
"""Tests of one case stay in one process, which starts one engine for them."""
LOGPROBS, STATES = 1e-3, 1e-3


@pytest.fixture(scope="module", params=CASES)
def result(request: pytest.FixtureRequest, loop: Loop, tmp_path_factory: pytest.TempPathFactory) -> FamilyResult:
    architecture, kind = request.param
    work: Path = tmp_path_factory.mktemp(architecture)
    (work / family.CASE).write_text(json.dumps({"family": architecture, "kind": kind}))
    return host.play(family.family, work, loop.variables)


def test_states_and_logprobs_are_transformers(result: FamilyResult) -> None:
    captured = result.captured
    assert captured.answer.logprobs == pytest.approx(captured.expected_logprobs, abs=LOGPROBS)
    assert captured.frames_off_by < STATES


def test_greedy_answers_are_transformers_under_every_arm(result: FamilyResult) -> None:
    assert [list(chunk.token_ids) for chunk in result.greedy] == result.greedy_expected


def test_a_drafter_trained_on_captured_states_is_served(result: FamilyResult) -> None:
    assert result.accepted > 0.15


def test_a_seed_gives_the_same_tokens_under_every_arm(result: FamilyResult) -> None:
    assert len(set(result.seeded.values())) == 1, result.seeded


def test_sampled_answers_follow_the_target_distribution(result: FamilyResult) -> None:
    masses = judge.expected(models.load(result.target), result.drawn)
    fits = {window: judge.fits(result.drawn, window, masses) for window in exact.WINDOWS}
    level = judge.LEVEL / (len(CASES) * sum(map(len, fits.values())))
    assert not {key: fit for key, each in fits.items() for fit in each.values() if fit.p_value < level}


def test_weights_change_in_flight_and_come_as_tensors(result: FamilyResult) -> None:
    update, chunk = result.update, result.update.in_flight
    assert list(dict.fromkeys(chunk.policy_versions)) == [0, 1]
    for place, (token, version) in enumerate(zip(chunk.token_ids, chunk.policy_versions, strict=True)):
        assert token == update.expected[version][place]
    assert list(update.fresh.token_ids) == update.fresh_expected
    assert list(update.sent.token_ids) == update.sent_expected
    assert set(update.sent.policy_versions) == {2}
