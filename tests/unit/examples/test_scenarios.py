"""What `make trainers` would run."""

import runpy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tlt_local.supervision.processes import Ended

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def runner() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "examples/run_trainers.py"))


def test_each_scenario_has_a_program_and_a_page(runner: dict[str, Any]) -> None:
    found = runner["scenarios"]()
    assert {one.name for one in found} >= {
        "own_loop",
        "trl_grpo",
        "trl_async",
        "trl_tools",
        "areal",
        "prime_rl",
        "openrlhf",
    }
    for one in found:
        program, *options = one.run.split()
        assert (one.directory / program).is_file()
        assert "{model}" in options
        assert all("==" in package for package in one.packages)
        assert (one.directory / "README.md").is_file()


def test_scenarios_are_chosen_by_name(runner: dict[str, Any]) -> None:
    assert {one.name for one in runner["scenarios"](["areal"])} == {"areal"}
    with pytest.raises(SystemExit, match=r"no scenarios \['x'\]; accepted: areal, "):
        runner["scenarios"](["x"])


def test_a_scenario_without_its_source_is_not_run(runner: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("A_SOURCE", raising=False)
    scenario = runner["Scenario"](
        directory=ROOT / "examples/04_areal", trainer="T", version="1", mode="m", ran="r", run="p.py", source="A_SOURCE"
    )
    outcome = runner["played"](scenario, "", "")
    assert outcome.row == "| T | 1 | m | r | `04_areal/p.py` | not run: no source; set A_SOURCE |"


def test_a_scenario_whose_environment_cannot_be_made_says_why(
    runner: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(runner["isolated"].__globals__, "ENVIRONMENTS", tmp_path)
    monkeypatch.setenv("UV_PYTHON_DOWNLOADS", "never")
    scenario = runner["Scenario"](
        directory=tmp_path, trainer="T", version="1", mode="m", ran="r", run="p.py", python="3.7", packages=("x==1",)
    )
    outcome = runner["played"](scenario, "", "")
    assert outcome.passed is None
    assert "not run: no environment:" in outcome.row
    assert "3.7" in outcome.result


@pytest.mark.parametrize(
    ("program", "passed", "result"),
    [
        ("print('result: 3 steps')", True, "3 steps"),
        ("print('result: 3 steps'); raise ValueError('x | y')", False, "ValueError: x / y"),
        ("pass", False, "no result"),
    ],
)
def test_a_program_passes_if_it_ends_well_and_prints_a_result(
    runner: dict[str, Any], tmp_path: Path, program: str, passed: bool, result: str
) -> None:
    (tmp_path / "p.py").write_text(program)
    scenario = runner["Scenario"](directory=tmp_path, trainer="T", version="1", mode="m", ran="r", run="p.py")
    outcome = runner["played"](scenario, "", "")
    assert outcome.passed is passed
    assert outcome.result.startswith(result)


def test_the_page_has_a_place_for_the_table(runner: dict[str, Any]) -> None:
    page = (ROOT / "docs/trainers.md").read_text()
    assert page.count(runner["BEGIN"]) == page.count(runner["END"]) == 1


def test_results_of_what_was_not_run_stay_in_the_table(runner: dict[str, Any]) -> None:
    page = (ROOT / "docs/trainers.md").read_text()
    (scenario,) = runner["scenarios"](["areal"])
    outcome = runner["Outcome"](scenario=scenario, result="another result", passed=True)
    assert runner["written"](page, []) == page
    before, after = page.splitlines(), runner["written"](page, [outcome]).splitlines()
    assert [new for old, new in zip(before, after, strict=True) if old != new] == [outcome.row]
    assert outcome.row.endswith("passed: another result |")
    skipped = runner["Outcome"](scenario=scenario, result="no source", passed=None)
    assert runner["written"](page, [skipped]) == page
    assert skipped.row in runner["written"](runner["EMPTY"], [skipped])


async def test_a_scenario_that_breaks_the_suite_is_its_own_row_and_the_next_ones_run_against_a_new_one(
    runner: dict[str, Any], tmp_path: Path
) -> None:
    found = [
        replace(one, run="p.py", packages=(), python="", source="A_SOURCE")
        for one in runner["scenarios"](["areal", "own_loop", "trl_grpo"])
    ]
    suites = list[list[Ended]]()

    @asynccontextmanager
    async def started() -> AsyncIterator[Any]:
        ended = [Ended(name="gateway", why="ZeroDivisionError | /0", code=1)] if not suites else []
        suites.append(ended)
        asked = list[None]()

        def ended_by_now() -> list[Ended]:
            asked.append(None)
            return ended if len(asked) > 1 else []

        yield runner["Suite"](endpoint="", http="http://127.0.0.1:9", ended=ended_by_now)

    outcomes = [outcome async for outcome in runner["outcomes_of"](found, started)]
    assert [outcome.scenario for outcome in outcomes] == found
    assert outcomes[0].result.startswith("gateway ended: ZeroDivisionError / /0 (the scenario: ")
    assert outcomes[0].passed is False
    assert not any("gateway ended" in outcome.result for outcome in outcomes[1:])
    assert len(suites) == 2
