"""Changes arrive by themselves; connections break, and come back."""

import re
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.page.conftest import Tab
from tlt_bench.page.served_page import ServedPage, serving

LOST = ("ERR_", "Failed to load")
"""Browsers write failed connections into the console."""


@pytest.fixture
def own() -> Iterator[ServedPage]:
    with serving(8) as served:
        yield served


def test_the_page_says_since_when_it_has_data(tab: Tab, own: ServedPage) -> None:
    page = tab.open(own, "fleet")
    expect(page.locator("#connection")).to_have_text(re.compile(r"Live, data since .*\d\d:\d\d:\d\d"))


def test_changes_are_shown_without_a_reload(tab: Tab, own: ServedPage) -> None:
    page = tab.open(own, "fleet")
    expect(page.locator("#connection")).to_contain_text("Live")
    before = page.locator("main").inner_text()
    page.wait_for_function("before => document.querySelector('main').innerText !== before", arg=before)
    assert sum("v1/fleet" in url for url in tab.requested) <= 2
    assert sum("v1/events" in url for url in tab.requested) == 1


def test_a_restarted_coordinator_is_read_anew_and_named(tab: Tab) -> None:
    tab.expected = LOST
    with serving(8) as first:
        page = tab.open(first, "fleet")
        expect(page.locator("#connection")).to_contain_text("Live")
    expect(page.locator("#connection")).to_contain_text("Reconnecting")
    address = first.url.removeprefix("http://").strip("/")
    with serving(9, "--listen", address):
        expect(page.locator("#connection")).to_contain_text("Live", timeout=40_000)
        expect(page.locator("table tbody tr")).to_have_count(9)
        expect(page.locator("#notice")).to_contain_text("data since")


def test_a_connection_that_went_silent_is_replaced_and_resumed(tab: Tab, own: ServedPage) -> None:
    tab.expected = LOST
    tab.page.clock.install()
    page = tab.open(own, "fleet")
    expect(page.locator("#connection")).to_contain_text("Live")
    asked = list[str | None]()
    page.on("request", lambda request: asked.append(request.headers.get("last-event-id")))
    page.wait_for_timeout(1500)  # until an event had an id
    own.process.send_signal(signal.SIGSTOP)
    page.clock.fast_forward(30_000)
    expect(page.locator("#connection")).to_contain_text("nothing was heard for a while")
    own.process.send_signal(signal.SIGCONT)
    page.clock.fast_forward(2_000)
    expect(page.locator("#connection")).to_contain_text("Live")
    assert [last for last in asked if last]


def test_a_timeline_that_follows_reads_only_what_is_new(tab: Tab, own: ServedPage) -> None:
    page = tab.open(own, "timeline")
    page.get_by_role("button", name="The last 5 min").click()
    page.wait_for_timeout(500)
    seen = len(tab.requested)
    page.wait_for_timeout(7000)
    columns = [int(re.findall(r"columns=(\d+)", url)[0]) for url in tab.requested[seen:] if "v1/timeline" in url]
    assert 1 <= len(columns) <= 4
    assert max(columns) < 32


def parsed(tab: Tab, served: ServedPage, pieces: list[str]) -> Any:
    page = tab.open(served, "drafter")
    return page.evaluate(
        """async (pieces) => {
            const { EventParser } = await import("./page/events.js");
            const parser = new EventParser();
            const events = pieces.flatMap((piece) => parser.push(piece));
            return { events, lastId: parser.lastId };
        }""",
        pieces,
    )


STREAM = (
    ': a comment\n\nid: 7\nevent: changes\ndata: {"a":\ndata: 1}\n\nid: 8\r\nevent: resync\r\ndata: {}\r\n\r\nid: 9\nda'
)


@pytest.mark.parametrize("length", [1, 2, 7, 1000])
def test_events_are_understood_in_whatever_pieces_they_arrive(tab: Tab, own: ServedPage, length: int) -> None:
    pieces = [STREAM[at : at + length] for at in range(0, len(STREAM), length)]
    assert parsed(tab, own, pieces) == {
        "events": [{"name": "changes", "data": '{"a":\n1}'}, {"name": "resync", "data": "{}"}],
        "lastId": "8",
    }
