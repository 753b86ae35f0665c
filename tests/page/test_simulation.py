"""The page of `tlt simulate` in a browser: complete in itself, and readable at every width, by day and by night."""

from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser

from tests.page.conftest import tab_in
from tests.unit.tlt_simulator.comparisons import findings
from tlt_simulator.report.page import write_page

DRAWN = """[...document.querySelectorAll("canvas")].map((canvas) => {
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    return new Set(new Uint32Array(data.buffer)).size;
})"""
OVERLAPPING = """(() => {
    const boxes = [...document.querySelectorAll(".below span, .left span")].map((one) => one.getBoundingClientRect());
    return boxes.filter((one, at) => boxes.some((other, before) => before < at && one.left < other.right
        && other.left < one.right && one.top < other.bottom && other.top < one.bottom)).length;
})()"""


@pytest.mark.parametrize("width", [1300, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("workers", [4, 32])
def test_it_is_drawn_without_a_network_and_fits(
    browser: Browser, tmp_path: Path, width: int, scheme: Literal["light", "dark"], workers: int
) -> None:
    path = tmp_path / "page.html"
    write_page(findings(workers, 30), path)
    viewport = {"width": width, "height": 900}
    with browser.new_context(offline=True, viewport=viewport, color_scheme=scheme) as context:  # type: ignore[arg-type]
        tab = tab_in(context)
        tab.page.goto(path.as_uri())
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= width
        drawn = tab.page.evaluate(DRAWN)
        assert len(drawn) > 10
        assert min(drawn) >= 1
        assert tab.page.evaluate(OVERLAPPING) == 0
        assert tab.troubles == []
        assert tab.requested == [path.as_uri()]


def test_everything_can_be_reached_by_keyboard(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    write_page(findings(), path)
    with browser.new_context() as context:
        page = tab_in(context).page
        page.goto(path.as_uri())
        reached = set()
        for _ in range(40):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("document.activeElement.tagName"))
        assert {"SUMMARY", "PRE"} <= reached
        page.locator("summary").first.press("Enter")
        assert page.locator("details").first.get_attribute("open") is not None
