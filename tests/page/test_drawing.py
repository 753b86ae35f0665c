"""The renderer, on its own: states are told by color and by pattern, in light and dark."""

import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from countdown.report.palette import STATES
from tests.page.conftest import FleetOf, Tab, tab_in
from tlt_bench.page.served_page import ServedPage
from tlt_common.domain.fleet import WorkerState

STYLE = Path(__file__).parents[2] / "services/tlt_coordinator/http/page/style.css"

DRAWN = """async (document) => {
    const { draw, heightOf } = await import("./page/timeline.js");
    const canvas = window.document.createElement("canvas");
    canvas.style.cssText = `width:800px;height:${heightOf(document)}px;display:block`;
    window.document.querySelector("main").replaceChildren(canvas);
    const place = draw(canvas, document);
    const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    const at = (part, row) => {
        const x = Math.round(place.left + part * place.width), y = Math.round(place.top + row * place.pitch);
        const block = [];
        for (let dy = 0; dy < 8; dy++) for (let dx = 0; dx < 8; dx++) {
            const index = 4 * ((y + dy) * canvas.width + x + dx);
            block.push([...data.slice(index, index + 4)].join(","));
        }
        return block;
    };
    const count = document.rows.length;
    return Array.from({ length: count }, (_, row) => [0.1, 0.4, 0.6, 0.9].map((part) => at(part, row)));
}"""


def document_of(rows: list[dict[str, Any]], columns: int, kind: str = "lanes") -> dict[str, Any]:
    return {
        "format": "tlt-timeline/1", "from_unix_s": 0, "to_unix_s": columns, "column_s": 1, "columns": columns,
        "states": [state.value for state in WorkerState], "kind": kind, "workers": len(rows), "first": 0, "rows": rows,
        "marks": [],
    }  # fmt: skip


def drawn(tab: Tab, served: ServedPage, document: dict[str, Any]) -> Any:
    """Return for each row four blocks of 8 by 8 pixels, at 0.1, 0.4, 0.6 and 0.9 of its width."""
    return tab.open(served, "drafter").evaluate(DRAWN, document)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_state_has_a_pattern_of_its_own(browser: Browser, fleet_of: FleetOf, scheme: Any) -> None:
    rows = [{"label": state.value, "devices": 1, "runs": [[index, 10]]} for index, state in enumerate(WorkerState)]
    with browser.new_context(color_scheme=scheme) as context:
        blocks = drawn(tab_in(context), fleet_of(8), document_of(rows, 10))
    shapes = [tuple(pixel == min(set(row[0])) for pixel in row[0]) for row in blocks]
    for one, other in combinations(range(len(shapes)), 2):
        inverted = tuple(not pixel for pixel in shapes[other])
        assert shapes[one] not in {shapes[other], inverted}, (rows[one]["label"], rows[other]["label"])


def test_a_lane_changes_where_its_runs_do_and_shows_nothing_where_nothing_is_known(tab: Tab, fleet_of: FleetOf) -> None:
    rows = [{"label": "w", "devices": 1, "runs": [[0, 25], [1, 25], [-1, 25], [0, 25]]}]
    ((first, second, third, fourth),) = drawn(tab, fleet_of(8), document_of(rows, 100))
    assert len(set(first)) == 1
    assert set(fourth) == set(first)
    assert len(set(second)) == 2
    assert set(third) == {"0,0,0,0"}


def test_a_band_is_filled_by_shares(tab: Tab, fleet_of: FleetOf) -> None:
    half = {"0": [100] * 50 + [50] * 50, "4": [0] * 50 + [50] * 50}
    rows = [{"label": "a … b", "workers": 2, "shares": half}]
    ((first, _, _, fourth),) = drawn(tab, fleet_of(8), document_of(rows, 100, "bands"))
    assert len(set(first)) == 1
    assert set(fourth).isdisjoint(set(first))  # the upper half


def variables(dark: bool) -> dict[str, str]:
    text = STYLE.read_text()
    light, _, rest = text.partition("@media (prefers-color-scheme: dark)")
    found = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", light))
    return found | (dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", rest)) if dark else {})


def contrast(one: str, other: str) -> float:
    """WCAG 2.2, relative luminance."""

    def luminance(color: str) -> float:
        channels = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("text", ["ink", "soft", "on", "warn", "link"])
@pytest.mark.parametrize("ground", ["surface", "raised"])
def test_text_can_be_read(dark: bool, text: str, ground: str) -> None:
    found = variables(dark)
    assert contrast(found[text], found[ground]) >= 4.5


def test_states_have_the_colors_of_the_report() -> None:
    found = variables(dark=False)
    for state in WorkerState:
        assert found[state.value] == STATES[state.value], state


def test_the_page_knows_every_state(tab: Tab, fleet_of: FleetOf) -> None:
    page = tab.open(fleet_of(8), "drafter")
    states = page.evaluate("""async () => {
        const [words, raster] = await Promise.all([import("./page/words.js"), import("./page/raster.js")]);
        return [words.STATES, Object.keys(words.MEANING), Object.keys(raster.PATTERNS)];
    }""")
    for known in states:
        assert {state.value for state in WorkerState} <= set(known)
