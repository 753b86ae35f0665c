"""The demo's report draws its timelines in a browser, from its one file."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from countdown.report import write_report
from tests.page.conftest import tab_in
from tests.unit.countdown.test_report import Story

COLORS = """[...document.querySelectorAll("canvas.timeline")].map((canvas) => {
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    return new Set(new Uint32Array(data.buffer)).size;
})"""


@pytest.mark.parametrize("scale", [1, 2])
def test_timelines_are_drawn_without_a_network(browser: Browser, tmp_path: Path, scale: int) -> None:
    report = write_report(Story().run(11), tmp_path)
    with browser.new_context(offline=True, device_scale_factor=scale) as context:
        tab = tab_in(context)
        tab.page.goto(report.as_uri())
        colors = tab.page.evaluate(COLORS)
        assert len(colors) == 3
        assert min(colors) > 5  # states with their patterns, and letters
        assert tab.troubles == []
        assert [url for url in tab.requested if url != report.as_uri()] == []
