"""The page for those who do not use a mouse, see less, or want less motion."""

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, expect

from tests.page.conftest import FleetOf, Tab, tab_in

VIEWS = ("fleet", "timeline", "step", "workers/worker-1", "drafter")


@pytest.mark.parametrize("view", VIEWS)
def test_every_control_has_a_name(tab: Tab, fleet_of: FleetOf, view: str) -> None:
    page = tab.open(fleet_of(8), view)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    unnamed = page.evaluate(
        """[...document.querySelectorAll("a, button, input, select, canvas[tabindex], summary")].filter((one) => !(
            one.textContent.trim() || one.getAttribute("aria-label") || one.labels?.length
        )).map((one) => one.outerHTML)"""
    )
    assert unnamed == []


@pytest.mark.parametrize("workers", [0, 8])
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(tab: Tab, fleet_of: FleetOf, view: str, workers: int, scheme: Any) -> None:
    if not workers and view.startswith("workers/"):
        tab.expected = ("404",)
    tab.page.emulate_media(color_scheme=scheme)
    page = tab.open(fleet_of(workers), view)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    found = Axe().run(page)
    assert not found.violations_count, found.generate_report()


def test_the_skip_link_leads_to_the_content_of_the_view_that_is_shown(tab: Tab, fleet_of: FleetOf) -> None:
    page = tab.open(fleet_of(8), "timeline")
    expect(page.get_by_role("heading", level=1)).to_have_text("Timeline")
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    assert "#/timeline" in page.url
    expect(page.get_by_role("heading", level=1)).to_have_text("Timeline")


def test_an_empty_fleet_says_what_is_missing_instead_of_showing_empty_charts(tab: Tab, fleet_of: FleetOf) -> None:
    page = tab.open(fleet_of(0), "fleet")
    expect(page.get_by_role("heading", level=1)).to_have_text("No worker has connected yet")
    expect(page.get_by_text("Workers appear here once their engines have loaded the model.")).to_be_visible()
    expect(page.get_by_role("heading", name="Device time")).to_be_hidden()


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_can_be_walked_by_keyboard_and_shows_where_one_is(tab: Tab, fleet_of: FleetOf, view: str) -> None:
    page = tab.open(fleet_of(8), view)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    reached = set()
    for _ in range(30):
        page.keyboard.press("Tab")
        name, outline = page.evaluate(
            """(() => {
                const one = document.activeElement;
                return [one.tagName, getComputedStyle(one).outlineStyle];
            })()"""
        )
        if name == "BODY":
            break
        reached.add(name)
        assert outline != "none", name
    assert {"A"} <= reached
    if view == "timeline":
        assert {"BUTTON", "CANVAS", "SUMMARY"} <= reached


def test_changes_of_the_connection_are_announced(tab: Tab, fleet_of: FleetOf) -> None:
    page = tab.open(fleet_of(8), "fleet")
    status = page.locator("[role=status][aria-live=polite]").first
    expect(status).to_contain_text("Live")


def test_nothing_moves_for_those_who_asked_for_that(browser: Browser, fleet_of: FleetOf) -> None:
    with browser.new_context(reduced_motion="reduce") as context:
        page = tab_in(context).open(fleet_of(8), "fleet")
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        assert page.evaluate("document.getAnimations().length") == 0


def test_the_current_view_is_marked(tab: Tab, fleet_of: FleetOf) -> None:
    page = tab.open(fleet_of(8), "step")
    expect(page.locator("nav a[aria-current=page]")).to_have_text("Step")
