"""Training stops on a plateau over a whole pass, never while the score rises, and always begins again with news."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tlt_common.domain.ids import DrafterVersion, PolicyVersion
from tlt_trainer.config import PaySettings
from tlt_trainer.sharing.payoff import Evaluation, News, Payoff, Surroundings

SETTINGS, GAIN = PaySettings(evaluations=6), 0.02
START = Payoff(settings=SETTINGS)
PASS = 5000
lengths = st.floats(1.0, 8.0)


@pytest.fixture(autouse=True)
def round_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tlt_trainer.sharing.payoff.PAY_GAIN", GAIN)
    monkeypatch.setattr("tlt_trainer.sharing.payoff.FRESH_TOKENS", 1000)


def after(*scores: float, payoff: Payoff = START, step: int = 2000, deployed: float | None = None) -> Payoff:
    """Evaluate every `step` tokens."""
    trained = payoff.evaluations[-1].trained_tokens if payoff.evaluations else 0
    for number, score in enumerate(scores, 1):
        evaluation = Evaluation(trained_tokens=trained + number * step, accept_length=score)
        payoff = payoff.scored(evaluation, deployed, pass_tokens=PASS)
    return payoff


def test_a_plateau_ends_training() -> None:
    assert not after(*[3.0] * 5).rests
    assert after(*[3.0] * 6).rests
    assert after(1.0, 2.0, 2.9, *[3.0] * 6).rests


def test_a_plateau_spans_a_whole_pass_over_the_data() -> None:
    assert not after(*[3.0] * 20, step=100).rests
    assert after(*[3.0] * 60, step=100).rests


def test_noise_about_a_rise_does_not_look_like_a_plateau() -> None:
    assert not after(*[3.0 + 0.02 * n + 0.01 * (-1) ** n for n in range(30)]).rests


def test_null_never_stops() -> None:
    payoff = Payoff(settings=PaySettings(evaluations=None))
    assert not after(*[3.0] * 100, payoff=payoff).rests


@given(st.floats(1.0, 3.0), st.floats(0.0, 1.0), st.integers(1, 60), st.integers(100, 5000))
def test_it_never_stops_while_every_evaluation_rises_by_more_than_the_gain(
    first: float, extra: float, count: int, step: int
) -> None:
    rise = GAIN + 0.001 + extra
    payoff = START
    for number in range(count):
        payoff = after(first + rise * number, payoff=payoff, step=step)
        assert not payoff.rests


@given(st.lists(lengths, max_size=40), st.integers(1, 9))
def test_a_new_policy_always_begins_anew(scores: list[float], policy: int) -> None:
    payoff = after(*scores)
    now = Surroundings(policy=PolicyVersion(policy))
    assert payoff.news(now) is News.POLICY
    assert payoff.noticed(now) == Payoff(settings=SETTINGS, since=now)


@given(st.lists(lengths, min_size=1, max_size=60))
def test_it_rests_only_below_the_gain_and_keeps_no_more_than_a_plateau_needs(scores: list[float]) -> None:
    payoff = after(*scores)
    assert not payoff.rests or payoff.rise() <= GAIN
    assert len(payoff.evaluations) <= 6


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
    payoff = after(*[3.0] * 6)
    assert payoff.news(now) is news
    assert payoff.noticed(now).rests == (news is None)


def test_a_drop_of_the_deployed_drafter_begins_anew() -> None:
    resting = after(*[3.0] * 6, deployed=3.0)
    assert resting.rests
    assert after(3.0, payoff=resting, deployed=2.95).rests
    assert not after(3.0, payoff=resting, deployed=2.8).rests
