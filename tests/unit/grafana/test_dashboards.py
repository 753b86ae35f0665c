"""Dashboards match the code, query exported metrics only, and tell a reader what to do."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from grafana_foundation_sdk.models.dashboard import Dashboard

from grafana.board import COLUMNS, TAG
from grafana.walk import PanelQuery, panels, queries_of, substitute
from grafana.write import BOARDS, stale
from tests import promql
from tests.cluster.kube.binaries import binary, missing

ROOT = Path(__file__).parents[3]
ALL = {name: make() for name, make in BOARDS.items()}
QUERIES = [query for board in ALL.values() for query in queries_of(board)]
boards = pytest.mark.parametrize("board", ALL.values(), ids=ALL.keys())
queries = pytest.mark.parametrize("query", QUERIES, ids=lambda query: f"{query.board}: {query.panel}")


def test_the_committed_files_are_what_the_code_says() -> None:
    assert stale(ROOT / "deploy/helm/tlt/dashboards") == [], "run make dashboards"


def test_a_file_that_was_changed_by_hand_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "rollout.json").write_text("{}")
    (tmp_path / "left_over.json").write_text("{}")
    assert stale(tmp_path) == sorted([*(f"{name}.json" for name in BOARDS), "left_over.json"])


@boards
def test_a_dashboard_can_be_found_and_linked_to(board: Dashboard) -> None:
    assert re.fullmatch(r"tlt-[a-z]+", board.uid or "")
    assert (board.title or "").startswith("TLT / ")
    assert board.tags == [TAG]
    assert board.description
    numbers = [panel.id_val for panel in board.panels or ()]
    assert len(set(numbers)) == len(numbers)


def test_no_two_dashboards_share_an_address_or_a_title() -> None:
    assert len({board.uid for board in ALL.values()}) == len({board.title for board in ALL.values()}) == len(ALL)


@boards
def test_panels_fill_their_lines_and_do_not_overlap(board: Dashboard) -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in board.panels or ():
        place = panel.grid_pos
        assert place is not None
        assert place.x + place.w <= COLUMNS
        for cell in ((x, y) for x in range(place.x, place.x + place.w) for y in range(place.y, place.y + place.h)):
            assert cell not in taken, f"{panel.title} lies over {taken[cell]}"
            taken[cell] = panel.title or ""
    height = 1 + max(y for _, y in taken)
    assert len(taken) == COLUMNS * height, "there are holes"


@boards
def test_every_panel_says_what_it_means_in_whole_sentences(board: Dashboard) -> None:
    for panel in panels(board):
        assert panel.title
        assert re.search(r"[.?!]$", panel.description or ""), panel.title
        assert panel.field_config is not None
        assert panel.field_config.defaults is not None
        assert panel.field_config.defaults.unit, panel.title
        assert panel.datasource is not None


@boards
def test_titles_are_unique_within_a_row(board: Dashboard) -> None:
    row: set[str] = set()
    for panel in board.panels or ():
        if panel.type_val == "row":
            row = set()
        assert panel.title not in row
        row.add(panel.title or "")


@queries
def test_a_query_asks_for_what_is_exported_and_for_one_release(query: PanelQuery) -> None:
    known = promql.exported()
    found = list(promql.series(query.expr))
    assert found
    for name, matched in found:
        assert name in known, name
        assert matched >= {"namespace", "release"}, name
        assert matched <= known[name] | promql.TARGET_LABELS, name
    every_label = {label for name, _ in found for label in known[name]} | promql.TARGET_LABELS
    assert promql.grouped(query.expr) <= every_label
    assert promql.bare_counters(query.expr) == []


@queries
def test_a_legend_names_labels_that_are_left(query: PanelQuery) -> None:
    named = set(re.findall(r"\{\{(\w+)\}\}", query.legend))
    assert named <= promql.grouped(query.expr)
    if query.kind != "stat":
        assert query.legend


@boards
def test_variables_are_declared_where_they_are_used(board: Dashboard) -> None:
    declared = {variable.name for variable in (board.templating.list_val or ())} if board.templating else set()
    used = {name for query in queries_of(board) for name in re.findall(r"\$(\w+)", query.expr)}
    assert used - {"__range", "__rate_interval"} <= declared
    assert {"datasource", "namespace", "release"} <= declared


@pytest.mark.skipif(missing("promtool") is not None, reason=missing("promtool") or "")
def test_every_query_is_promql(tmp_path: Path) -> None:
    rules = [
        {"record": f"query_{number}", "expr": substitute(query.expr, range_s=3600, window_s=60)}
        for number, query in enumerate(QUERIES)
    ]
    file = tmp_path / "rules.json"
    file.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    checked = subprocess.run([binary("promtool"), "check", "rules", file], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{len(QUERIES)} rules found" in checked.stdout
