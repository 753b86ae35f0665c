"""Costs that are fitted to a journal."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.tlt_simulator.fit.journals import (
    BEGAN_S,
    COSTS,
    LEARN_S,
    LEARN_TOKEN_S,
    STEPS,
    recording,
)
from tlt_common.domain.arm import arm_named
from tlt_common.domain.fleet import WorkerState
from tlt_common.errors import ConfigError
from tlt_common.journal.coordinator_lines import DrafterLine, LeaseLine, StateLine
from tlt_common.journal.gateway_lines import PrefillLine, RoundsLine, UpdateLine
from tlt_simulator.costs.figure import Source
from tlt_simulator.costs.files import load, save
from tlt_simulator.costs.roofline import calculated
from tlt_simulator.fit.extrapolation import extrapolations
from tlt_simulator.fit.fitting import fit_journal
from tlt_simulator.scenario import Scenario

CLOSE = {
    "round_fixed_s": 0.02,
    "round_token_s": 0.02,
    "kv_token_s": 0.02,
    "draft_fixed_s": 0.05,
    "draft_token_s": 0.1,
    "prefill_token_s": 1e-3,
    "accept_decay": 0.012,
    "ngram_accept": 0.02,
    "accept_start": 0.1,
    "accept_best": 0.04,
    "learn_half_tokens": 0.3,
    "learn_tokens_s": 0.02,
    "lease_start_s": 0.05,
    "lease_stop_s": 1e-3,
    "drafter_load_s": 1e-3,
    "update_s": 1e-3,
}
"""Relative errors."""


def test_costs_that_made_a_journal_are_found_in_it(tmp_path: Path) -> None:
    fitted = fit_journal(recording().write(tmp_path))
    for name, error in CLOSE.items():
        assert getattr(fitted.costs, name).value == pytest.approx(getattr(COSTS, name).value, rel=error), name
        assert getattr(fitted.costs, name).source is Source.FITTED, name
    assert fitted.trainer.learn_s.value == pytest.approx(LEARN_S, rel=0.05)
    assert fitted.trainer.learn_token_s.value == pytest.approx(LEARN_TOKEN_S, rel=0.05)
    assert fitted.round_error < 0.01


def test_intervals_contain_what_made_a_noisy_journal(tmp_path: Path) -> None:
    fitted = fit_journal(recording(noise=0.1).write(tmp_path))
    for name in ("round_token_s", "kv_token_s", "draft_fixed_s"):
        figure, true = getattr(fitted.costs, name), getattr(COSTS, name).value
        assert figure.least < figure.value < figure.most, name
        assert 0.8 * figure.least < true < 1.25 * figure.most, name
    assert 0.03 < fitted.round_error < 0.15


def test_rounds_are_predicted_whatever_the_split_between_their_parts(tmp_path: Path) -> None:
    fitted = fit_journal(recording(noise=0.05).write(tmp_path))
    for arm in ("off", "chain-3", "chain-7"):
        for batch in (1, 4, 16):
            measured_s = COSTS.terms.round_s(arm_named(arm), batch, 500 * batch)
            assert fitted.costs.terms.round_s(arm_named(arm), batch, 500 * batch) == pytest.approx(measured_s, rel=0.06)


def test_reading_weights_is_part_of_each_round_and_rows_are_not(tmp_path: Path) -> None:
    read = {"round_read_s": COSTS.round_token_s.model_copy(update={"value": 0.01})}
    fitted = fit_journal(recording(COSTS.model_copy(update=read)).write(tmp_path)).costs
    assert fitted.round_fixed_s.value == pytest.approx(COSTS.round_fixed_s.value + 0.01, rel=0.02)
    assert fitted.round_token_s.value == pytest.approx(COSTS.round_token_s.value, rel=0.02)


def test_scores_of_drafters_that_hardly_drafted_tell_the_curve_too(tmp_path: Path) -> None:
    made = recording()
    fewer = tuple(
        line
        for line in made.gateway
        if not isinstance(line, RoundsLine) or line.drafter in {0, 5, 6} or not arm_named(line.arm).needs_drafter
    )
    scored = tuple(
        replace(line, top1=0.9 * COSTS.quality(line.tokens, 0)) if isinstance(line, DrafterLine) else line
        for line in made.coordinator
    )
    fitted = fit_journal(replace(made, gateway=fewer, coordinator=scored).write(tmp_path))
    for step in range(4, STEPS + 1):  # where they started is not told
        learned = 8.0 * step * COSTS.learn_tokens_s.value
        assert fitted.costs.quality(learned, 1) == pytest.approx(COSTS.quality(learned, 1), abs=0.04), step
    assert len(fitted.drafters) == 2


def test_time_between_rounds_is_part_of_them(tmp_path: Path) -> None:
    made = recording()
    longer = tuple(
        replace(line, at=line.at + 1.2)
        if isinstance(line, StateLine)
        and line.worker == "w0"
        and line.at > BEGAN_S + 1
        and line.state is WorkerState.IDLE
        else line
        for line in made.coordinator
    )
    slower = replace(made, coordinator=longer)
    plain, with_gaps = fit_journal(made.write(_new(tmp_path, "a"))), fit_journal(slower.write(_new(tmp_path, "b")))
    assert with_gaps.costs.round_fixed_s.value > plain.costs.round_fixed_s.value + 0.0005
    assert "pass between rounds" in with_gaps.costs.round_fixed_s.of


def test_fleet_and_steps_are_those_of_the_journal(tmp_path: Path) -> None:
    fitted = fit_journal(recording().write(tmp_path))
    assert (fitted.fleet.workers, fitted.fleet.gpus, fitted.fleet.slots, fitted.fleet.kv_room) == (2, 1, 16, 32_000)
    assert (len(fitted.side(with_suite=True)), len(fitted.side(with_suite=False))) == (STEPS, STEPS - 1)
    assert [len(step.samples) for step in fitted.trace.steps] == [8] * STEPS
    assert fitted.costs.device == "cpu"
    assert fitted.costs.model == "m"


def test_what_the_journal_does_not_tell_comes_from_the_base_and_is_named(tmp_path: Path) -> None:
    made = recording().without(DrafterLine, LeaseLine).write(tmp_path)
    base = calculated("h100", "7b")
    fitted = fit_journal(made, base=base)
    for name in ("accept_best", "learn_half_tokens", "learn_tokens_s", "lease_start_s"):
        assert getattr(fitted.costs, name) == getattr(base, name)
        assert name in fitted.assumed
    assert "round_token_s" not in fitted.assumed


@pytest.mark.parametrize(
    ("dropped", "field", "more"),
    [
        ((RoundsLine,), "round_fixed_s", "a minute of them"),
        ((PrefillLine,), "prefill_token_s", "needed: 256 more"),
        ((UpdateLine,), "learn_s", "needed: 1 more"),
    ],
)
def test_what_is_missing_is_refused_by_name_with_how_much_more_is_needed(
    tmp_path: Path, dropped: tuple[type, ...], field: str, more: str
) -> None:
    with pytest.raises(ConfigError, match=f"{field} cannot be fitted.*{more}") as refused:
        fit_journal(recording().without(*dropped).write(tmp_path))
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("arm", "field", "lines", "what"),
    [
        ("off", "round_fixed_s", 4, "240 rounds without a drafter; needed: 16 more"),
        ("chain-3", "draft_fixed_s", 1, "60 rounds that draft; needed: 4 more"),
    ],
)
def test_too_few_rounds_are_refused_by_name(tmp_path: Path, arm: str, field: str, lines: int, what: str) -> None:
    made = recording()
    few = [line for line in made.gateway if isinstance(line, RoundsLine) and line.arm == arm][:lines]
    enough = [line for line in made.gateway if isinstance(line, RoundsLine) and line.arm == "off" != arm]
    rest = [line for line in made.gateway if not isinstance(line, RoundsLine)]
    with pytest.raises(ConfigError, match=f"the journal has {what}") as refused:
        fit_journal(replace(made, gateway=(*rest, *few, *enough)).write(tmp_path))
    assert refused.value.field == field


def test_one_batch_size_does_not_tell_what_a_request_costs(tmp_path: Path) -> None:
    made = recording()
    alone = tuple(line for line in made.gateway if not isinstance(line, RoundsLine) or line.batch == 4)
    with pytest.raises(ConfigError, match="needed: 1 more batch size") as refused:
        fit_journal(replace(made, gateway=alone).write(tmp_path))
    assert refused.value.field == "round_request_s"


def test_a_fleet_of_two_devices_is_refused(tmp_path: Path) -> None:
    made = recording()
    mixed = tuple(
        replace(line, device="H100") if isinstance(line, RoundsLine) and line.batch == 4 else line
        for line in made.gateway
    )
    with pytest.raises(ConfigError, match=r"rounds of 2 devices \(H100, cpu\)") as refused:
        fit_journal(replace(made, gateway=mixed).write(tmp_path))
    assert refused.value.field == "device"


def test_a_gateway_alone_tells_what_it_can(tmp_path: Path) -> None:
    fitted = fit_journal(replace(recording(), coordinator=()).write(tmp_path))
    assert fitted.costs.round_token_s.value == pytest.approx(COSTS.round_token_s.value, rel=0.02)
    assert {"learn_tokens_s", "lease_start_s", "accept_best"} <= set(fitted.assumed)
    assert not fitted.side(with_suite=False)


def test_what_a_simulation_would_extrapolate_is_named(tmp_path: Path) -> None:
    fitted = fit_journal(recording().write(tmp_path))
    scenario = Scenario(name="n", fleet=fitted.fleet, trainer=fitted.trainer, costs=fitted.costs)
    (drafter,) = extrapolations(scenario, fitted.trace)
    assert drafter.startswith("drafters: the first draft is accepted with up to 0.9")
    assert extrapolations(scenario.plain, fitted.trace) == ()
    larger = scenario.model_copy(update={"fleet": fitted.fleet.model_copy(update={"workers": 64})})
    assert extrapolations(larger, fitted.trace) == ("workers: up to 64; fitted to 2 at most", drafter)
    longest = replace(fitted.trace.steps[0].samples[0], tokens=30_000)
    longer = replace(fitted.trace, steps=(replace(fitted.trace.steps[0], samples=(longest,)),))
    assert [what.split(":")[0] for what in extrapolations(scenario, longer)][:2] == [
        "tokens in a worker's KV cache",
        "tokens of a response",
    ]


def test_costs_keep_what_they_were_fitted_to_in_a_file(tmp_path: Path) -> None:
    costs = fit_journal(recording().write(tmp_path)).costs
    save(costs, tmp_path / "costs.json")
    assert load(tmp_path / "costs.json") == costs
    assert costs.fitted_to is not None
    assert costs.fitted_to.requests == 16.0


def test_calculated_costs_extrapolate_nothing_since_they_were_fitted_to_nothing(tmp_path: Path) -> None:
    fitted = fit_journal(recording().write(tmp_path))
    scenario = Scenario(name="n", fleet=fitted.fleet, trainer=fitted.trainer, costs=calculated("h100", "7b"))
    assert extrapolations(scenario, fitted.trace) == ()


def _new(parent: Path, name: str) -> Path:
    directory = parent / name
    directory.mkdir()
    return directory
