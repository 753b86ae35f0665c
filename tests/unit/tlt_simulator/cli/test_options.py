"""Options of `tlt simulate`: what is refused, by name, and what they come to."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tlt_common.errors import ConfigError
from tlt_simulator.cli import app, command
from tlt_simulator.cli.inputs import Inputs
from tlt_simulator.cli.prepared import prepared
from tlt_simulator.costs import files
from tlt_simulator.costs.figure import Source
from tlt_simulator.costs.roofline import calculated
from tlt_simulator.report import interval, sensitivity, what_to_set

LENGTHS = "lognormal:median=60,p99=300,cap=512"
SMALL = ["--lengths", LENGTHS, "--prompts", "4", "--group", "2", "--steps", "2", "--gpus", "2", "--drafter", "public"]
MACHINE = ["--card", "h100", "--model", "7b"]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--seed", "1"], "--case NAME, --trace PATH or --lengths SPEC: one is required"),
        (["--case", "paper", "--lengths", LENGTHS], "not --case and --lengths together"),
        (["--case", "pape"], "--case is 'pape'; accepted: paper, nemo-rl, bytedance-32b"),
        (["--case", "paper", "--gpus", "8"], "--gpus: not with --case, which has its own"),
        (["--case", "paper", "--row", "9b"], "--row is '9b'; accepted for --case paper: 7b, 1 node"),
        (["--case", "paper", "--steps", "0"], "--steps is 0; accepted: at least 1"),
        (["--case", "paper", "--html", "page.html"], "--html is for one row of --case paper"),
        (["--lengths", LENGTHS, "--form", "verl"], "--form: only with --trace"),
        (["--lengths", LENGTHS, "--row", "7b"], "--row: only with --case"),
        (["--trace", "missing.jsonl", "--prompts", "4"], "--prompts: only with --lengths"),
        (["--trace", "missing.jsonl", "--drafter", "none", "--gpus", "2", *MACHINE], "missing.jsonl"),
        (["--lengths", LENGTHS, "--drafter", "none"], "--gpus is required"),
        (["--lengths", "normal:median=1", "--drafter", "none", "--gpus", "2", *MACHINE], "'normal' is not a"),
        ([*SMALL], "--card is required; accepted: --costs and --kv-room instead"),
        ([*SMALL, "--card", "h100"], "--model is required"),
        ([*SMALL, "--card", "v100", "--model", "7b"], "--card is 'v100'; accepted: a100-80"),
        ([*SMALL, "--card", "h100", "--model", "70b"], "does not fit"),
        ([*SMALL, *MACHINE, "--gpus-per-worker", "3"], "--gpus is 2; accepted: a multiple of --gpus-per-worker, 3"),
        ([*SMALL, *MACHINE, "--gpus", "0"], "--gpus is 0; accepted: at least 1"),
        ([*SMALL, *MACHINE, "--learn-s", "-1"], "--learn-s is -1; accepted: at least 0"),
        ([*SMALL, *MACHINE, "--rollout-share", "0"], "--rollout-share is 0; accepted: above 0"),
        ([*SMALL, *MACHINE, "--rollout-share", "0.5", "--learn-s", "3"], "--learn-s and --rollout-share"),
        ([*SMALL, *MACHINE, "--max-staleness", "-1"], "--max-staleness is -1; accepted: at least 0"),
        ([*SMALL, *MACHINE, "--max-staleness", "1", "--colocated"], "needs GPUs of its own; accepted: --max-"),
        (["--case", "paper", "--max-staleness", "1"], "--max-staleness: not with --case, which has its own"),
        (["sweep", *SMALL, *MACHINE, "--colocated", "--over", "trainer.max_staleness=0,1"], "needs GPUs of its own"),
        ([*SMALL[:-2], *MACHINE], "--drafter is required; accepted: public, none, or trained=TOKENS"),
        ([*SMALL, *MACHINE, "--drafter", "trained"], "--drafter is 'trained'; accepted: public, none"),
        ([*SMALL, *MACHINE, "--drafter", "trained=0"], "--drafter is 'trained=0'; accepted: public, none"),
        ([*SMALL, *MACHINE, "--drafter", "eagle"], "--drafter is 'eagle'; accepted: public, none"),
        ([*SMALL, *MACHINE, "--set", "spot.max_trainer=1"], "--set spot.max_trainer: unknown key; accepted: lending"),
        ([*SMALL, *MACHINE, "--set", "spot.max_trainers"], "--set spot.max_trainers: accepted: KEY=VALUE"),
        ([*SMALL, *MACHINE, "--json", "missing/result.json"], "--json missing/result.json: missing does not exist"),
        ([*SMALL, *MACHINE, "--html", "/"], "--html /: is a directory"),
        ([*SMALL, *MACHINE, "--sample", "0"], "--sample is 0"),
        ([*SMALL, *MACHINE, "--processes", "0"], "--processes is 0"),
        ([*SMALL, *MACHINE, "--costs", "missing.json"], "missing.json"),
        (["--seed", "1", "cases"], "--seed precedes cases"),
        (["sweep", *SMALL, *MACHINE, "--over", "spot.max_trainers=1,x"], "--over spot.max_trainers"),
        (["sweep", *SMALL, *MACHINE, "--over", "spot.trainers=1"], "--over spot.trainers: unknown key"),
        (["sweep", *SMALL, *MACHINE, "--over", "spot.max_trainers=1", "--resume"], "--resume: only with --results"),
        (["sweep", *SMALL, *MACHINE, "--over", "spot.max_trainers=1", "--seeds", "0"], "--seeds is 0"),
        (["fit", "missing", "--card", "h100"], "--model is required"),
        (["cases", "nothing"], "--case is 'nothing'"),
    ],
)  # fmt: skip
def test_what_is_not_accepted_is_refused_by_name(arguments: list[str], said: str) -> None:
    refused = run(*arguments).exception
    assert isinstance(refused, ConfigError), refused
    assert said in str(refused)


def test_a_sweep_needs_something_to_vary() -> None:
    result = run("sweep", *SMALL, *MACHINE)
    assert result.exit_code == 2
    assert "--over" in result.output


def test_help_names_every_option() -> None:
    result = run("--help")
    for name in Inputs.__dataclass_fields__:
        assert ("--set" if name == "settings" else f"--{name.replace('_', '-')}") in result.output
    for name in ("sweep", "fit", "cases"):
        assert name in result.output
        assert run(name, "--help").exit_code == 0


def given(**values: Any) -> Inputs:
    usual: dict[str, Any] = {
        "lengths": LENGTHS,
        "prompts": 4,
        "group": 2,
        "steps": 2,
        "gpus": 2,
        "card": "h100",
        "model": "7b",
        "drafter": "public",
    }
    return Inputs(**usual | values)


def test_options_come_to_a_scenario() -> None:
    (found,) = prepared(given(settings=["gateway.pack_running=2"], learn_s=7.0, colocated=False, seed=3))
    assert found.scenario.fleet.workers == 2
    assert found.scenario.seed == 3
    assert found.scenario.suite.gateway.pack_running == 2
    assert not found.scenario.trainer.colocated
    assert found.scenario.trainer.learn_s.value == 7.0
    assert found.trace.responses == 16


def test_the_rl_trainer_has_its_own_gpus_unless_told_otherwise() -> None:
    (found,), (shared,) = prepared(given(learn_s=7.0)), prepared(given(learn_s=7.0, colocated=True))
    assert not found.scenario.trainer.colocated
    assert shared.scenario.trainer.colocated
    assert any("shares the rollout GPUs" in note for note in shared.notes)


@pytest.mark.parametrize(
    ("drafter", "tokens", "public"), [("none", 0.0, False), ("public", 0.0, True), ("trained=1_000_000", 1e6, False)]
)
def test_a_run_begins_with_the_drafter_that_is_named(drafter: str, tokens: float, public: bool) -> None:
    (found,) = prepared(given(drafter=drafter, learn_s=1.0))
    assert (found.scenario.drafter_tokens, found.scenario.public_drafter) == (tokens, public)


def test_a_share_of_the_step_is_assumed_if_nothing_says_it() -> None:
    (found,) = prepared(given(lengths="lognormal:median=4000,p99=8000,cap=8192"))
    learn_s = found.scenario.trainer.learn_s
    assert learn_s.source is Source.ASSUMED
    assert learn_s.least < learn_s.value < learn_s.most
    assert "85%" in learn_s.of


def test_a_log_with_times_says_how_long_learning_takes(tmp_path: Path) -> None:
    log = tmp_path / "lengths.csv"
    lines = [f"{step},{prompt},{100 + prompt},10" for step in (1, 2) for prompt in (1, 1, 2, 2)]
    log.write_text("\n".join(["step,group,tokens,prompt_tokens", *lines]) + "\n")
    (found,) = prepared(given(lengths=None, prompts=None, trace=log, steps=1))
    assert len(found.trace.steps) == 1
    assert any("the first 1 of the 2 steps" in note for note in found.notes)


def test_costs_of_a_file_need_no_card(tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    files.save(calculated("h200", "7b"), path)
    (found,) = prepared(given(card=None, model=None, costs=path, kv_room=500_000, learn_s=1.0))
    assert found.scenario.costs.device == "h200"
    assert found.scenario.fleet.kv_room == 500_000


def test_a_run_is_simulated_and_written(tmp_path: Path) -> None:
    page, result = tmp_path / "page.html", tmp_path / "result.json"
    done = run(*SMALL, *MACHINE, "--learn-s", "1", "--quick", "--html", str(page), "--json", str(result))
    assert done.exit_code == 0, done.output
    assert "whole run" in done.output
    assert f"page: {page}" in done.output
    values = json.loads(result.read_text())
    assert values["format"] == "tlt-simulation/1"
    assert values["steps"] == 2
    assert values["sensitivity"] is None
    assert values["numbers"]["trainer.learn_s"]["source"] == "measured"
    assert page.read_text().startswith("<!doctype html>")


def test_ctrl_c_keeps_what_is_known_and_names_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = list[str]()

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(interval, "interval", lambda *_, **__: shown.append("interval"))
    monkeypatch.setattr(sensitivity, "sensitivity", interrupted)
    page, result = tmp_path / "page.html", tmp_path / "result.json"
    done = run(*SMALL, *MACHINE, "--learn-s", "1", "--html", str(page), "--json", str(result))
    assert done.exit_code == 130
    assert shown == ["interval"]
    assert "whole run" in done.stdout
    assert json.loads(result.read_text())["incomplete"] == ["sensitivity", "what to set"]
    assert "Interrupted before sensitivity, what to set." in page.read_text()


def test_the_table_is_shown_before_the_analysis_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    order = list[str]()
    monkeypatch.setattr(command, "show", lambda _: order.append("shown"))
    monkeypatch.setattr(interval, "interval", lambda *_, **__: order.append("interval"))
    monkeypatch.setattr(sensitivity, "sensitivity", lambda *_, **__: order.append("sensitivity"))
    monkeypatch.setattr(what_to_set, "what_to_set", lambda *_, **__: order.append("what to set"))
    assert run(*SMALL, *MACHINE, "--learn-s", "1").exit_code == 0
    # The table, and what the run is without n-grams.
    assert order[:2] == ["shown", "shown"]
    assert order[2:] == ["interval", "shown", "sensitivity", "shown", "what to set", "shown"]


def test_standard_output_has_json_alone() -> None:
    arguments = [*SMALL, *MACHINE, "--learn-s", "1", "--quick", "--json", "-"]
    one, other = run(*arguments), run(*arguments)
    assert json.loads(one.stdout)["by_step"]
    assert one.stdout == other.stdout


def test_a_sweep_prints_a_row_per_combination_and_is_resumed(tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    arguments = [*SMALL, *MACHINE, "--learn-s", "1", "--over", "coordinator.spot.max_trainers=1,2", "--seeds", "1",
                 "--processes", "1", "--results", str(results)]  # fmt: skip
    first = run("sweep", *arguments)
    assert first.exit_code == 0, first.output
    assert "spot.max_trainers" in first.output
    assert "One seed does not tell" in first.output
    written = results.read_bytes()
    again = run("sweep", *arguments, "--resume")
    assert again.exit_code == 0, again.exception
    assert again.output == first.output
    assert results.read_bytes() == written
    assert isinstance(run("sweep", *arguments).exception, ConfigError)


def test_cases_are_listed_and_described() -> None:
    assert run("cases").output.splitlines() == ["paper", "nemo-rl", "bytedance-32b"]
    described = run("cases", "paper").output
    assert "7b, 1 node: 1.21 published (step)" in described
    assert "assumed: " in described
