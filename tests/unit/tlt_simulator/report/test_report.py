"""What the table, the JSON and the page say of a made-up comparison."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from rich.console import Console

from tests.unit.tlt_simulator.comparisons import comparison, findings, outcome, scenario, trace
from tlt_common.domain.fleet import WorkerState
from tlt_common.errors import ConfigError
from tlt_common.timeline import TimelineDocument
from tlt_simulator.costs.figure import Source
from tlt_simulator.report.document import document
from tlt_simulator.report.findings import Findings, bubble_use, measured_time, pairs, typical, worst
from tlt_simulator.report.page import page, write_page
from tlt_simulator.report.page.lines import ticks_to
from tlt_simulator.report.page.timelines import BANDS, document_in
from tlt_simulator.report.provenance import named_figures
from tlt_simulator.report.swept import table as swept_table
from tlt_simulator.report.terminal import analysis, table
from tlt_simulator.report.what_to_set import WhatToSet
from tlt_simulator.report.words import duration, figure_text, in_one_unit, three_digits
from tlt_simulator.sweep.rows import rows_of


def printed(found: Findings, *, numbers: bool = False, width: int = 140) -> str:
    console = Console(width=width)
    with console.capture() as captured:
        console.print(table(found, numbers=numbers))
        console.print(analysis(found.without_ngrams, found.interval, found.sensitivity, found.what_to_set))
    return captured.get()


def test_every_output_says_where_every_number_comes_from() -> None:
    found = findings()
    names = {named.name for named in named_figures(found.comparison.scenario)}
    shown = printed(found)
    for source in Source:
        assert source.value in shown
    for name in names:
        assert name.removeprefix("costs.") in shown
    values = document(found)["numbers"]
    assert values.keys() == names
    assert values["costs.ageing"] == {"value": 0.002, "low": 0.0016, "high": 0.0024, "source": "assumed", "of": ""}
    html, listed = page(found), printed(found, numbers=True)
    for name in names:
        assert f"<code>{name}</code>" in html
        assert name in listed


def test_what_is_left_without_ngrams_follows_the_table() -> None:
    found = findings()
    alone = replace(found.comparison, with_suite=found.comparison.without)
    assert "Without n-grams, the whole run takes" not in printed(found)
    assert "with TLT and is 1.00x as fast" in printed(replace(found, without_ngrams=alone))


def test_the_table_of_an_asynchronous_run_has_rates_and_ages() -> None:
    found = findings()
    scenario, rate = found.comparison.scenario, f"{found.comparison.with_suite.tokens_s:,.0f}"
    trainer = scenario.trainer.model_copy(update={"max_staleness": 2, "colocated": False})
    comparison = replace(found.comparison, scenario=scenario.model_copy(update={"trainer": trainer}))
    shown = printed(replace(found, comparison=comparison))
    for part in ("trainer waits for rollouts", "tokens per second", rate, "0.00, at most 0", "step, mean"):
        assert part in shown
    assert "its tail" not in shown
    assert "staleness" not in printed(found)


def test_the_table_has_ratios_intervals_checks_and_what_to_set() -> None:
    shown = printed(findings())
    for part in ("1.32x", "1.20 to 1.80", "+7.4%", "--set gateway.pack_running=2", "note: one seed", "4 of 6 steps"):
        assert part in shown


def test_the_table_fits_a_narrow_terminal() -> None:
    assert all(len(line) <= 80 for line in printed(findings(), width=80).splitlines())


def test_a_run_alone_is_shown_without_the_rest() -> None:
    alone = Findings(comparison=comparison(), responses=192)
    assert "what the speedup depends on" not in printed(alone)
    assert document(alone)["interval"] is None
    assert "What to set" not in page(alone)


def test_an_interrupted_analysis_says_what_is_missing() -> None:
    cut = replace(findings(), what_to_set=None, missing=("what to set",))
    assert "incomplete: interrupted before what to set" in printed(cut)
    assert document(cut)["incomplete"] == ["what to set"]
    assert "Interrupted before what to set." in page(cut)
    assert document(findings())["incomplete"] == []


def test_the_document_is_json_and_adds_up() -> None:
    values = json.loads(json.dumps(document(findings())))
    assert values["without"]["seconds"] == pytest.approx(sum(step["without"]["seconds"] for step in values["by_step"]))
    assert values["speedup"] == pytest.approx(values["without"]["seconds"] / values["with"]["seconds"])
    spent = values["with"]["device_s_by_state"]
    assert sum(spent.values()) == pytest.approx(4 * values["with"]["seconds"])
    assert values["what_to_set"]["lines"] == ["--set gateway.pack_running=2"]


def test_the_same_findings_make_the_same_page() -> None:
    assert page(findings()) == page(findings())


def test_median_and_worst_step() -> None:
    found = comparison()
    speedups = [pair.speedup for pair in pairs(found)]
    assert speedups[worst(found)] == min(speedups)
    assert speedups[typical(found)] == sorted(speedups)[len(speedups) // 2]


def test_bubble_use_is_the_ledgers() -> None:
    step = replace(
        comparison().with_suite.steps[0],
        by_state={WorkerState.TRAINING: 3.0, WorkerState.IDLE: 1.0, WorkerState.ROLLOUT: 9.0, WorkerState.TRAINER: 5.0},
    )
    assert bubble_use(step) == 0.75
    assert bubble_use(replace(step, by_state={})) == 0.0


def test_a_trace_with_times_is_compared_with_the_side_without_the_suite() -> None:
    found = measured_time([step.rollout_s for step in trace(steps=6).steps], comparison().without)
    assert found is not None
    assert found.rollout_s == 360.0
    assert found.error == pytest.approx(comparison().without.rollout_s / 360.0 - 1.0)
    assert measured_time([None] * 6, comparison().without) is None


class Loaded(HTMLParser):
    """Collects what a page refers to."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value or "" for name, value in attrs if name in {"src", "href", "action", "data", "srcset"}]


def test_the_page_loads_nothing() -> None:
    loaded = Loaded()
    text = page(findings())
    loaded.feed(text)
    assert loaded.found == []
    assert not re.search(r"@import|url\(|https?://", text.partition("<body>")[0])


def test_names_from_outside_are_text() -> None:
    bad = "<script>alert(1)</script>"
    found = replace(
        findings(),
        comparison=replace(comparison(), scenario=scenario(name=bad), source=bad),
        notes=(bad,),
    )
    assert bad not in page(found)


def test_the_page_has_a_table_behind_every_chart() -> None:
    text = page(findings())
    for canvas in re.findall(r"<(?:canvas class=timeline|div class=chart|div class=tornado)[^>]*>", text):
        assert "aria-label" in canvas
    assert text.count("Show as a table") >= 6


def test_a_page_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--html .*missing/page\.html"):
        write_page(findings(), tmp_path / "missing" / "page.html")


def test_timelines_have_lanes_for_few_workers_and_bands_for_many() -> None:
    few = document_in(comparison(4).with_suite, 1, 1)
    assert (few.kind, len(few.rows)) == ("lanes", 4)
    many = document_in(comparison(32, gpus=4).with_suite, 1, 4)
    assert (many.kind, len(many.rows)) == ("bands", BANDS)
    assert [mark.kind for mark in many.marks] == ["publication"]
    assert TimelineDocument.model_validate(many.model_dump()).workers == 32


def test_nothing_to_set_is_said() -> None:
    nothing = WhatToSet(steps="all 6 steps", seeds=3, tried=(), chosen={}, gain=0.0)
    found = replace(findings(), what_to_set=nothing)
    assert "What to set: nothing." in printed(found)
    assert "Nothing: none of 0 values" in page(found)


def test_rows_of_a_sweep_name_what_to_set_by_the_products_name() -> None:
    rows = rows_of(
        [({"spot.max_trainers": str(value)}, [outcome(90 + value), outcome(91 + value)] * 2) for value in (1, 9)]
    )
    console = Console(width=140)
    with console.capture() as captured:
        console.print(swept_table(scenario(), rows, 4))
    assert "--set coordinator.spot.max_trainers=1" in captured.get()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (2e-8, "20 ns"), (2.5e-5, "25 µs"), (0.012, "12 ms"), (59, "59 s"), (600, "10 min"), (9000, "2.5 h"),
     (950_400, "11 days")],
)  # fmt: skip
def test_durations_have_a_unit_that_suits_them(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_numbers_have_three_digits_and_units() -> None:
    assert [three_digits(value) for value in (0, 1234.5, 123.4, 0.12345)] == ["0", "1,234", "123", "0.123"]
    assert figure_text("costs.learn_tokens_s", 20_000) == "20,000 tokens/s"
    assert figure_text("costs.ageing", 0.002) == "0.002"
    assert [in_one_unit(190)(value) for value in (60, 180)] == ["1 min", "3 min"]


@pytest.mark.parametrize("most", [0.0, 0.3, 1.0, 7.0, 63.0, 1000.0, 12_345.0])
def test_scales_have_a_few_round_values(most: float) -> None:
    ticks = ticks_to(most, 0.0)
    assert ticks[0] == 0.0
    assert ticks[-1] >= most * (1 - 1e-9)
    assert 2 <= len(ticks) <= 7
