"""What the views show, at fleets of all sizes."""

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.page.conftest import ODD, PROBLEM, SIZES, FleetOf, Tab, ask

MAX_ELEMENTS = 2500
"""In the page: a row per worker of the largest fleet would be 100,000."""


@pytest.mark.parametrize("workers", SIZES)
def test_the_fleet_shows_the_figures_and_pages_through_workers(tab: Tab, fleet_of: FleetOf, workers: int) -> None:
    page = tab.open(fleet_of(workers), "fleet")
    expect(page.get_by_role("heading", level=1)).to_contain_text(re.compile(r"worker"))
    rows = page.locator("table tbody tr")
    expect(rows).to_have_count(min(50, workers))
    first = rows.first.locator("a").inner_text()
    if workers > 50:
        page.get_by_role("button", name="Next").click()
        expect(rows.first.locator("a")).not_to_have_text(first)
        page.get_by_role("button", name="Previous").click()
    expect(rows.first.locator("a")).to_have_text(first)
    assert page.locator("*").count() < MAX_ELEMENTS


def test_device_time_by_state_is_what_the_coordinator_says(tab: Tab, fleet_of: FleetOf) -> None:
    served = fleet_of(8)
    page = tab.open(served, "fleet")
    shown = page.get_by_role("figure", name="Workers by state, now").locator("li:visible")
    expect(shown.first).to_be_visible()
    seen = {text.split()[0]: int(text.split()[1]) for text in shown.all_inner_texts()}
    assert sum(seen.values()) == 8


@pytest.mark.parametrize("workers", SIZES)
def test_the_timeline_is_a_picture_and_a_table(tab: Tab, fleet_of: FleetOf, workers: int) -> None:
    page = tab.open(fleet_of(workers), "timeline")
    picture = page.get_by_role("img", name=re.compile("^States of"))
    expect(picture).to_be_visible()
    page.get_by_text("Show as a table").click()
    rows = page.locator("details table tbody tr")
    expect(rows).to_have_count({8: 8, 512: 64, 10_240: 32}[workers])
    parts = rows.first.locator("td").all_inner_texts()
    shares = [float(part.removesuffix("\N{NO-BREAK SPACE}%")) for part in parts]
    assert sum(shares) == pytest.approx(100, abs=3)
    assert page.locator("*").count() < MAX_ELEMENTS


def test_more_lanes_than_rows_are_turned_through(tab: Tab, fleet_of: FleetOf) -> None:
    page = tab.open(fleet_of(512), "timeline")
    expect(page.get_by_text("Workers 1 to 64 of 512")).to_be_visible()
    page.get_by_role("button", name="Next workers").click()
    expect(page.get_by_text("Workers 65 to 128 of 512")).to_be_visible()
    assert "first=64" in page.evaluate("location.hash")


def test_a_worker_is_shown_with_its_reasons(tab: Tab, fleet_of: FleetOf) -> None:
    served = fleet_of(8)
    page = tab.open(served, "workers/worker-3")
    expect(page.get_by_role("heading", level=1)).to_have_text("worker-3")
    worker: Any = ask(served, "workers/worker-3")
    assert worker["reasons"]
    expect(page.locator(".reasons li")).to_have_count(len(worker["reasons"]))
    expect(page.get_by_text(worker["address"])).to_be_visible()
    expect(page.get_by_role("img", name=re.compile("^States of 1 worker"))).to_be_visible()


def test_steps_lengths_and_drafters_are_shown(tab: Tab, fleet_of: FleetOf) -> None:
    served = fleet_of(8)
    page = tab.open(served, "step")
    expect(page.get_by_role("img", name="Running and finished responses by length")).to_be_visible()
    page.get_by_text("Show as a table").click()
    expect(page.get_by_role("region", name="Responses by length").locator("tbody tr").first).to_be_visible()
    page = tab.open(served, "drafter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Drafter v")
    expect(page.get_by_role("region", name="Versions").locator("tbody tr").last).to_contain_text("v1")


def test_addresses_can_be_shared_and_back_works(tab: Tab, fleet_of: FleetOf) -> None:
    page = tab.open(fleet_of(8), "fleet")
    page.get_by_role("link", name="worker-5").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("worker-5")
    page.go_back()
    expect(page).to_have_title("Fleet · TLT")
    expect(page.locator("table tbody tr").first).to_be_visible()
    page.goto(page.url.split("#")[0] + "#/workers/nobody")
    expect(page.get_by_role("alert")).to_contain_text("Not found")
    tab.expected = ("404",)


def test_ids_and_problems_are_text_whatever_they_are(tab: Tab, fleet_of: FleetOf) -> None:
    markup, long = ODD
    page = tab.open(fleet_of(8), "fleet")
    link = page.locator("table tbody a").filter(has_text="<img")
    expect(link).to_have_text(markup)
    assert page.locator("img").count() == 0
    link.click()
    expect(page.get_by_role("heading", level=1)).to_have_text(markup)
    for view in ("timeline", "step", "drafter", "fleet"):
        tab.open(fleet_of(8), view)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), view
        assert "hacked" not in page.title()
    page.locator("table tbody a").filter(has_text=long[:20]).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(long)
    tab.open(fleet_of(8), "workers/worker-4")
    expect(page.locator("main .reason")).to_have_text(PROBLEM)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.locator("img").count() == 0


@pytest.mark.parametrize("view", ["fleet", "timeline", "step", "workers/worker-1", "drafter"])
def test_no_view_is_wider_than_a_telephone(tab: Tab, fleet_of: FleetOf, view: str) -> None:
    tab.page.set_viewport_size({"width": 390, "height": 800})
    page = tab.open(fleet_of(8), view)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    page.wait_for_load_state("networkidle") if view == "none" else page.wait_for_timeout(300)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
