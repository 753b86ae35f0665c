"""When a trainer trains, publishes and rests."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.tlt_trainer.tiny import TinyPolicy
from tlt_common.domain.ids import DrafterVersion, PolicyVersion
from tlt_trainer.config import PublishSettings
from tlt_trainer.drafter.score import Score
from tlt_trainer.sharing.decision import (
    LEAST_POINTS,
    PAUSE,
    Evaluation,
    News,
    Plateau,
    Surroundings,
    TrainingDecisions,
    draft_cost,
)

GAIN = 0.02
START = Plateau(evaluations_needed=6)
PASS = 5000
lengths = st.floats(1.0, 8.0)


@pytest.fixture(autouse=True)
def round_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tlt_trainer.sharing.decision.PAY_GAIN", GAIN)
    monkeypatch.setattr("tlt_trainer.sharing.decision.FRESH_TOKENS", 1000)


def after(*scores: float, plateau: Plateau = START, step: int = 2000, deployed: float | None = None) -> Plateau:
    """Evaluate every `step` tokens."""
    trained = plateau.evaluations[-1].trained_tokens if plateau.evaluations else 0
    for number, score in enumerate(scores, 1):
        evaluation = Evaluation(trained_tokens=trained + number * step, accept_length=score)
        plateau = plateau.scored(evaluation, deployed, pass_tokens=PASS)
    return plateau


def test_a_plateau_ends_training() -> None:
    assert not after(*[3.0] * 5).reached
    assert after(*[3.0] * 6).reached
    assert after(1.0, 2.0, 2.9, *[3.0] * 6).reached


def test_a_plateau_spans_a_whole_pass_over_the_data() -> None:
    assert not after(*[3.0] * 20, step=100).reached
    assert after(*[3.0] * 60, step=100).reached


def test_noise_about_a_rise_does_not_look_like_a_plateau() -> None:
    assert not after(*[3.0 + 0.02 * n + 0.01 * (-1) ** n for n in range(30)]).reached


def test_null_never_stops() -> None:
    plateau = Plateau(evaluations_needed=None)
    assert not after(*[3.0] * 100, plateau=plateau).reached


@given(st.floats(1.0, 3.0), st.floats(0.0, 1.0), st.integers(1, 60), st.integers(100, 5000))
def test_it_never_stops_while_every_evaluation_rises_by_more_than_the_gain(
    first: float, extra: float, count: int, step: int
) -> None:
    rise = GAIN + 0.001 + extra
    plateau = START
    for number in range(count):
        plateau = after(first + rise * number, plateau=plateau, step=step)
        assert not plateau.reached


@given(st.lists(lengths, max_size=40), st.integers(1, 9))
def test_a_new_policy_always_begins_anew(scores: list[float], policy: int) -> None:
    plateau = after(*scores)
    now = Surroundings(policy=PolicyVersion(policy))
    assert plateau.news(now) is News.POLICY
    assert plateau.begun(now) == Plateau(evaluations_needed=6, since=now)


@given(st.lists(lengths, min_size=1, max_size=60))
def test_it_rests_only_below_the_gain_and_keeps_no_more_than_a_plateau_needs(scores: list[float]) -> None:
    plateau = after(*scores)
    assert not plateau.reached or plateau.rise() <= GAIN
    assert len(plateau.evaluations) <= 6


@pytest.mark.parametrize(
    ("now", "news"),
    [
        (Surroundings(), None),
        (Surroundings(drafter=DrafterVersion(1)), News.DRAFTER),
        (Surroundings(frame_tokens=999), None),
        (Surroundings(frame_tokens=1000), News.FRAMES),
    ],
)
def test_what_counts_as_news(now: Surroundings, news: News | None) -> None:
    plateau = after(*[3.0] * 6)
    assert plateau.news(now) is news


def test_a_drop_of_the_deployed_drafter_begins_anew() -> None:
    resting = after(*[3.0] * 6, deployed=3.0)
    assert resting.reached
    assert after(3.0, plateau=resting, deployed=2.95).reached
    assert not after(3.0, plateau=resting, deployed=2.8).reached


def score(*accepted: float) -> Score:
    return Score(hits=(0.0,) * len(accepted), accepted=accepted)


def deciding(publish: PublishSettings | None = None) -> TrainingDecisions:
    return TrainingDecisions(publish or PublishSettings(every_tokens=100), draft_cost=0.1)


@pytest.mark.parametrize(
    ("every", "scored", "held_out"),
    [(32_768, 16_384, 4096), (524_288, 16_384, 4096), (16_384, 8192, 2048), (100, 50, 64), (1, 1, 64)],
)
def test_evaluations_follow_from_the_interval_of_publications(every: int, scored: int, held_out: int) -> None:
    publish = PublishSettings(every_tokens=every)
    assert (publish.score_every_tokens, publish.held_out_tokens) == (scored, held_out)
    assert deciding(publish).score_in == scored


def evaluate(decisions: TrainingDecisions, own: Score, base: Score | None = None, *, trained_s: float = 0.0) -> None:
    decisions.scoring()
    decisions.scored(own, base, learned_tokens=0, trained_s=trained_s, pass_tokens=PASS)


def test_the_first_must_make_up_for_the_time_it_takes_to_draft() -> None:
    decisions = deciding(PublishSettings(first_gain=1.0))
    assert not decisions.admits(score(0.2, 0.2, 0.2), None)  # 1.25 tokens in 1.3 rounds
    assert decisions.admits(score(0.3, 0.2, 0.2), None)  # 1.37


def test_the_first_competes_with_what_the_engine_reaches_without_it() -> None:
    decisions = deciding(PublishSettings(first_gain=1.0))
    decisions.engine_reached(1.6)  # n-gram drafts
    assert not decisions.admits(score(0.6, 0.5, 0.4), None)  # 2.02 in 1.3
    assert decisions.admits(score(0.7, 0.5, 0.4), None)  # 2.19
    decisions.engine_reached(0.0)  # no rounds yet
    assert decisions.admits(score(0.6, 0.5, 0.4), None)


def test_a_later_one_must_gain() -> None:
    decisions = deciding(PublishSettings(gain=0.02))
    decisions.engine_reached(4.0)
    published = score(0.6, 0.5, 0.5)
    assert not decisions.admits(score(0.605, 0.5, 0.5), published)
    assert decisions.admits(score(0.62, 0.5, 0.5), published)


def test_no_gain_required_publishes_at_once() -> None:
    decisions = deciding(PublishSettings(first_gain=0.0))
    decisions.engine_reached(3.0)
    assert decisions.admits(score(0.0, 0.0, 0.0), None)


def test_weights_are_published_once_per_score_and_not_before_so_many_tokens() -> None:
    decisions = deciding()
    decisions.trained(99)
    evaluate(decisions, score(0.9, 0.9, 0.9))
    assert not decisions.shares
    decisions.trained(1)
    assert decisions.shares
    assert decisions.share(now_s=0.0)
    assert not decisions.shares
    decisions.trained(100)
    assert decisions.shares
    assert not decisions.share(now_s=0.0)


def test_a_publication_is_followed_by_a_pause_that_the_end_of_a_lease_does_not_keep() -> None:
    decisions = deciding()
    evaluate(decisions, score(0.9, 0.9, 0.9))
    decisions.publication_took(10.0, 12.0)
    over_s = 12.0 + PAUSE * 2.0
    assert not decisions.share(now_s=over_s - 0.1)
    assert decisions.share(now_s=over_s)  # the pause has not used up the score
    evaluate(decisions, score(0.9, 0.9, 0.9))
    decisions.publication_took(over_s, over_s + 2.0)
    assert decisions.lease_over(learned=True)


def test_what_was_learned_after_a_good_score_is_published_when_the_lease_ends() -> None:
    decisions = deciding()
    evaluate(decisions, score(0.9, 0.9, 0.9))
    assert decisions.share(now_s=0.0)
    assert decisions.lease_over(learned=True)
    assert not decisions.lease_over(learned=True)  # the next lease has no score yet


def test_nothing_is_published_when_a_lease_ends_without_a_good_score_or_without_learning() -> None:
    decisions = deciding()
    assert not decisions.lease_over(learned=True)
    evaluate(decisions, score(0.1, 0.1, 0.1), score(0.9, 0.9, 0.9))
    assert not decisions.lease_over(learned=True)
    evaluate(decisions, score(0.9, 0.9, 0.9))
    assert decisions.share(now_s=0.0)
    assert not decisions.lease_over(learned=False)


def test_an_evaluation_is_due_after_so_many_tokens_whatever_became_of_the_last() -> None:
    decisions = deciding()
    assert decisions.score_in == 50
    decisions.trained(60)
    assert decisions.score_in == -10
    decisions.scoring()
    assert decisions.score_in == 50


def test_no_gain_is_said_of_few_scores_or_of_one_moment() -> None:
    decisions = deciding()
    for _ in range(LEAST_POINTS + 1):
        assert decisions.gain_per_s is None
        evaluate(decisions, score(0.5), trained_s=4.0)
    assert decisions.gain_per_s is None


@given(st.floats(-0.5, 0.5), st.floats(0.5, 8.0))
def test_the_gain_per_second_is_that_of_a_line(slope: float, every_s: float) -> None:
    decisions = deciding()
    for number in range(8):
        evaluate(decisions, score(30.0 + slope * number * every_s), trained_s=number * every_s)
    assert decisions.gain_per_s == pytest.approx(slope, abs=1e-9)


def test_other_weights_begin_another_line_frames_do_not_and_what_was_known_stays_until_then() -> None:
    decisions = deciding()
    for number in range(LEAST_POINTS):
        evaluate(decisions, score(float(number)), trained_s=float(number))
    assert decisions.look_around(Surroundings(frame_tokens=1000)) is News.FRAMES
    evaluate(decisions, score(float(LEAST_POINTS)), trained_s=float(LEAST_POINTS))
    assert decisions.gain_per_s == pytest.approx(1.0)
    assert decisions.look_around(Surroundings(policy=PolicyVersion(1), frame_tokens=1000)) is News.POLICY
    for number in range(LEAST_POINTS - 1):
        evaluate(decisions, score(9.0), trained_s=10.0 + number)
        assert decisions.gain_per_s == pytest.approx(1.0)
    evaluate(decisions, score(9.0), trained_s=20.0)
    assert decisions.gain_per_s == pytest.approx(0.0)


def test_drafting_costs_the_share_of_weights_that_it_reads(policy: TinyPolicy) -> None:
    weights = {name: math.prod(shape) for name, shape in policy.form.tensor_shapes().items()}
    fc = weights.pop("fc.weight")
    layer, head = sum(weights.values()), policy.form.vocab_size * policy.form.hidden_size
    expected = (layer + fc + head) / (32 * layer + head)
    assert draft_cost(policy.form, 32) == pytest.approx(expected, rel=0.01)  # it leaves out the norms
