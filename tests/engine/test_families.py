"""Every family in the table passes the same suite: one tiny checkpoint, one engine."""

import json
from pathlib import Path

import pytest

from tests.engine import host, models
from tests.engine.scenes import family, other_values
from tests.engine.scenes.family import FamilyResult
from tests.families import TYPES
from tests.loops import Loop
from tests.lossless import exact, judge
from tlt_worker.model.families import FAMILIES

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]

CASES = [
    pytest.param(row.architecture, kind, id=f"{row.model_type}-{kind}")
    for row in FAMILIES.values()
    for kind in row.drafters
]
LOGPROBS, STATES = 1e-3, 1e-3


@pytest.mark.parametrize(("architecture", "kind"), CASES)
def test_a_family_does_what_the_table_says(
    architecture: str, kind: str, loop: Loop, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    (tmp_path / family.CASE).write_text(json.dumps({"family": architecture, "kind": kind}))
    result = host.play(family.family, tmp_path, loop.variables)
    for check in (
        states_and_logprobs_are_transformers,
        greedy_answers_are_transformers_under_every_arm,
        a_drafter_trained_on_captured_states_is_served,
        a_seed_gives_the_same_tokens_under_every_arm,
        sampled_answers_follow_the_target_distribution,
        weights_change_in_flight_and_come_as_tensors,
        a_checkpoints_head_drafts_at_once_and_is_no_part_of_later_weights,
    ):
        with subtests.test(check.__name__):
            check(result)


def states_and_logprobs_are_transformers(result: FamilyResult) -> None:
    captured = result.captured
    assert captured.answer.logprobs == pytest.approx(captured.expected_logprobs, abs=LOGPROBS)
    assert captured.frames_off_by < STATES


def greedy_answers_are_transformers_under_every_arm(result: FamilyResult) -> None:
    assert [list(chunk.token_ids) for chunk in result.greedy] == result.greedy_expected


def a_drafter_trained_on_captured_states_is_served(result: FamilyResult) -> None:
    assert result.accepted > 0.15


def a_seed_gives_the_same_tokens_under_every_arm(result: FamilyResult) -> None:
    assert len(set(result.seeded.values())) == 1, result.seeded


def a_checkpoints_head_drafts_at_once_and_is_no_part_of_later_weights(result: FamilyResult) -> None:
    if (head := result.head) is None:
        return
    assert head.first > 0.15
    assert head.after == head.before


def sampled_answers_follow_the_target_distribution(result: FamilyResult) -> None:
    masses = judge.expected(models.load(result.target), result.drawn)
    fits = {window: judge.fits(result.drawn, window, masses) for window in exact.WINDOWS}
    level = judge.LEVEL / (len(CASES) * sum(map(len, fits.values())))
    assert not {key: fit for key, each in fits.items() for fit in each.values() if fit.p_value < level}


def weights_change_in_flight_and_come_as_tensors(result: FamilyResult) -> None:
    update, chunk = result.update, result.update.in_flight
    assert list(dict.fromkeys(chunk.policy_versions)) == [0, 1]
    for place, (token, version) in enumerate(zip(chunk.token_ids, chunk.policy_versions, strict=True)):
        assert token == update.expected[version][place]
    assert list(update.fresh.token_ids) == update.fresh_expected
    assert list(update.sent.token_ids) == update.sent_expected
    assert set(update.sent.policy_versions) == {2}


@pytest.mark.parametrize("model_type", TYPES)
def test_other_values_of_every_key_mean_what_they_do_in_transformers(
    model_type: str, loop: Loop, tmp_path: Path
) -> None:
    (tmp_path / other_values.CASE).write_text(model_type)
    result = host.play(other_values.other_values, tmp_path, loop.variables)
    assert result.answer.logprobs == pytest.approx(result.expected_logprobs, abs=LOGPROBS)
