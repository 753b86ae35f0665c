"""`tlt try`: what it refuses, and how it says what it found."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from countdown.record import Difference, Pairs, Response, Rollout, Side
from tlt_common.domain.fleet import (
    DrafterRecord,
    Fleet,
    WorkerAccount,
    WorkerHello,
    WorkerState,
    WorkerStatus,
)
from tlt_common.domain.ids import DrafterVersion, WorkerId
from tlt_common.errors import ConfigError
from tlt_local.models import published
from tlt_local.readiness import PUBLISHER
from word_problems.settings import DRAFTER
from word_problems.trial.cli import app
from word_problems.trial.outcome import Learned, Outcome, report
from word_problems.trial.run import Wish, why_done


def rollout(side: Side, *, seconds: float, rounds: int, drafter: int = 0) -> Rollout:
    """Return a rollout of ten responses of 10 to 100 tokens, the longest of which ends last."""
    responses = tuple(
        Response(
            prompt=at, sample=0, tokens=10 * at, finished_s=seconds * at / 10, reward=0.0, correct=False, rounds=rounds
        )
        for at in range(1, 11)
    )
    return Rollout(
        side=side, began_unix_s=0.0, seconds=seconds, responses=responses, ledger={}, drafter_version=drafter
    )


LEARNED = Learned(
    seconds=60.0, states=5000, loss=2.5, published=0, held_out_top1=0.0, ended="nothing was left to learn"
)


def outcome(
    *, on_s: float = 10.0, pairs: Pairs | None = None, learned: Learned = LEARNED, drafter: str = ""
) -> Outcome:
    same = pairs or Pairs(responses=10, max_logprob_gap=0.0)
    return Outcome(
        model="m",
        machine="a machine",
        device="cpu",
        dtype="float32",
        prompts=10,
        samples=1,
        max_new_tokens=100,
        temperature=0.6,
        drafter=drafter,
        start_up_s=20.0,
        first_gain_s=100.0,
        rollouts=(rollout("off", seconds=20.0, rounds=55), rollout("on", seconds=on_s, rounds=22, drafter=2)),
        pairs=(same,),
        learned=learned,
    )


def test_the_table_has_both_sides_and_fits_into_80_columns() -> None:
    table = report(outcome()).split("\n\n")[0]
    assert max(map(len, table.splitlines())) <= 80
    for part in ("speculation off", "27.5", "55.0", "20.0 s", "10.0 s", "1.00", "2.50", "v2", "10 of 10"):
        assert part in table, table


def test_the_gain_and_what_the_trainer_needs_are_said() -> None:
    said = report(outcome())
    assert "2.00 times the tokens per second; the tail is done 2.00 times as fast." in said
    assert "token for token" in said
    assert said.splitlines()[-3] == "tlt up --model m"
    assert "rollout_func=TltRollouts(" in said.splitlines()[-1]


def test_no_gain_is_said_too() -> None:
    assert "No gain here" in report(outcome(on_s=25.0))


def test_responses_that_differ_are_counted_and_explained() -> None:
    pairs = Pairs(responses=10, differences=(Difference(prompt=1, sample=0, token=7, gap=2e-5),), max_logprob_gap=3e-5)
    said = report(outcome(pairs=pairs))
    assert "9 of 10" in said
    assert "1 of 10 responses differ: arms round differently; where they part" in said
    assert "2.0e-05" in said


@pytest.mark.parametrize(
    ("learned", "drafter", "said"),
    [
        (LEARNED, "", "no drafter is good enough yet to be served"),
        (LEARNED, "/shipped", "It started with the drafter /shipped. "),
        (LEARNED, "/shipped", "no better drafter was published"),
        (LEARNED.model_copy(update={"published": 1, "held_out_top1": 0.31}), "", "predicts 31% of held-out tokens"),
    ],
)
def test_what_was_learned_is_said_as_it_is(learned: Learned, drafter: str, said: str) -> None:
    assert said in report(outcome(learned=learned, drafter=drafter))


def fleet(
    state: WorkerState, *, tokens: int = 100, loaded: int = 0, drafters: tuple[tuple[int, str], ...] = ()
) -> Fleet:
    hello = WorkerHello(worker_id=WorkerId("w"), address="a:1", model="m", device="cpu", max_running=1)
    status = WorkerStatus(state=state, training_tokens=tokens, drafter_version=DrafterVersion(loaded))
    records = tuple(
        DrafterRecord(version=DrafterVersion(version), worker_id=WorkerId(by), at_unix_s=0.0, held_out_top1=0.5)
        for version, by in drafters
    )
    return Fleet(
        workers=(WorkerAccount(hello=hello, status=status, seconds={}, timeline=()),),
        queued=0,
        drafter=None,
        drafters=records,
        lending=True,
        bubble_utilisation=0.0,
    )


def test_training_ends_with_a_drafter_that_workers_have_loaded_or_nothing_to_learn() -> None:
    assert not why_done(fleet(WorkerState.TRAINING))
    assert not why_done(fleet(WorkerState.TRAINING, loaded=1, drafters=((1, PUBLISHER),)))
    assert not why_done(fleet(WorkerState.TRAINING, loaded=1, drafters=((1, PUBLISHER), (2, "w"))))
    assert why_done(fleet(WorkerState.TRAINING, loaded=2, drafters=((1, PUBLISHER), (2, "w"))))
    assert why_done(fleet(WorkerState.RESTING)) == "nothing was left to learn"
    assert not why_done(fleet(WorkerState.RESTING, tokens=0))


def test_smollm2_starts_with_the_shipped_drafter_and_others_without(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(published, "home", lambda: tmp_path)
    (tmp_path / "smollm2").mkdir()
    (tmp_path / "smollm2" / "config.json").write_text("{}")
    shipped, other = Wish(model=Path("smollm2")), Wish(model=tmp_path)
    assert (shipped.drafter_path(), shipped.sampling().temperature) == (str(DRAFTER), 0.6)
    assert (other.drafter_path(), other.sampling().temperature) == ("", 1.0)
    assert Wish(model=Path("smollm2"), drafter="none").drafter_path() == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--model", "smollm2"), "`tlt models get smollm2`"),
        (("--model", "/nowhere"), "--model: /nowhere is not a directory"),
    ],
)
def test_it_refuses_in_one_line(
    options: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(published, "home", lambda: tmp_path)
    refused = CliRunner().invoke(app, list(options)).exception
    assert isinstance(refused, ConfigError)
    assert message in refused.message
