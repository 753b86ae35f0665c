"""The timeline: moved and zoomed by mouse, touch and keyboard; joined from what arrives."""

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.page.conftest import FleetOf, Tab, ask


def timeline(tab: Tab, fleet_of: FleetOf, workers: int = 8) -> tuple[Page, Locator]:
    page = tab.open(fleet_of(workers), "timeline")
    picture = page.get_by_role("img", name=re.compile("^States of"))
    expect(picture).to_be_visible()
    return page, picture


def shown(page: Page) -> tuple[float, float] | None:
    """Return the window in the address; None: it follows the present.

    The page is asked: `page.url` follows once the browser has reported the change.
    """
    found = re.search(r"from=([\d.]+)&to=([\d.]+)", page.evaluate("location.hash"))
    return (float(found[1]), float(found[2])) if found else None


def pressed(page: Page, key: str) -> tuple[float, float]:
    page.keyboard.press(key)
    window = shown(page)
    assert window is not None
    return window


def test_keys_move_zoom_and_return(tab: Tab, fleet_of: FleetOf) -> None:
    page, picture = timeline(tab, fleet_of)
    picture.focus()
    assert shown(page) is None
    first = pressed(page, "ArrowLeft")
    second = pressed(page, "ArrowLeft")
    assert second[0] < first[0]
    assert second[1] - second[0] == pytest.approx(first[1] - first[0], abs=0.3)
    zoomed = pressed(page, "+")
    assert zoomed[1] - zoomed[0] == pytest.approx((second[1] - second[0]) / 1.5, rel=0.01)
    assert pressed(page, "ArrowRight")[0] > zoomed[0]
    began = pressed(page, "Home")
    assert began[0] < zoomed[0]
    page.keyboard.press("End")
    assert shown(page) is None


def test_a_shared_window_is_shown_again(tab: Tab, fleet_of: FleetOf) -> None:
    page, picture = timeline(tab, fleet_of)
    picture.focus()
    page.keyboard.press("+")
    window = pressed(page, "ArrowLeft")
    page.reload()
    expect(page.get_by_role("img", name=re.compile("^States of"))).to_be_visible()
    assert shown(page) == window
    expect(page.locator(".range")).to_contain_text(" to ")


def test_rows_are_chosen_by_key_and_said(tab: Tab, fleet_of: FleetOf) -> None:
    page, picture = timeline(tab, fleet_of)
    picture.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".says")).to_contain_text(re.compile(r"\w+, \d\d:\d\d:\d\d: \w+ for"))
    label = page.locator(".says").inner_text().split(",")[0]
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(label)


def test_the_mouse_moves_and_the_wheel_zooms(tab: Tab, fleet_of: FleetOf) -> None:
    page, picture = timeline(tab, fleet_of)
    box = picture.bounding_box()
    assert box is not None
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.move(*middle)
    expect(page.locator(".says")).not_to_have_text("")
    page.mouse.down()
    page.mouse.move(middle[0] + 200, middle[1], steps=4)
    page.mouse.up()
    address, dragged = page.evaluate("location.href"), shown(page)
    assert dragged is not None
    page.keyboard.down("Control")
    page.mouse.wheel(0, -200)
    page.keyboard.up("Control")
    page.wait_for_function("address => location.href !== address", arg=address)
    zoomed = shown(page)
    assert zoomed is not None
    assert zoomed[1] - zoomed[0] < dragged[1] - dragged[0]


def test_fingers_pinch(tab: Tab, fleet_of: FleetOf) -> None:
    page, picture = timeline(tab, fleet_of)
    picture.focus()
    before = pressed(page, "ArrowLeft")
    picture.evaluate(
        """(canvas) => {
            const box = canvas.getBoundingClientRect();
            canvas.setPointerCapture = () => {};
            const send = (name, pointerId, part) => canvas.dispatchEvent(new PointerEvent(name, {
                pointerId, pointerType: "touch", bubbles: true,
                clientX: box.left + part * box.width, clientY: box.top + 60,
            }));
            send("pointerdown", 1, 0.5);
            send("pointerdown", 2, 0.6);
            send("pointermove", 2, 0.8);
            send("pointerup", 1, 0.5);
            send("pointerup", 2, 0.8);
        }"""
    )
    after = shown(page)
    assert after is not None
    assert after[1] - after[0] == pytest.approx((before[1] - before[0]) / 3, rel=0.05)


@pytest.mark.parametrize("workers", [8, 10_240])
def test_documents_are_joined_as_if_they_had_been_read_whole(tab: Tab, fleet_of: FleetOf, workers: int) -> None:
    served = fleet_of(workers)
    fleet: Any = ask(served, "fleet")
    column_s, to_s = 2.0, fleet["at_unix_s"] - 60

    def read(begin: int, columns: int) -> Any:
        from_s = to_s + begin * column_s
        query = f"from={from_s!r}&to={from_s + columns * column_s!r}&columns={columns}&rows=16"
        return ask(served, f"timeline?{query}")

    page = tab.open(served, "drafter")
    joined = page.evaluate(
        """async ([first, later]) => {
            const { appended } = await import("./page/timeline_document.js");
            return appended(first, later);
        }""",
        [read(-100, 80), read(-22, 12)],
    )
    whole = read(-90, 80)
    for document in (joined, whole):
        for name in ("from_unix_s", "to_unix_s"):
            document[name] = round(document[name], 3)
        for row in document["rows"]:
            row["shares"] = {state: each for state, each in row.get("shares", {}).items() if any(each)}
    assert json.dumps(joined["rows"], sort_keys=True) == json.dumps(whole["rows"], sort_keys=True)
    assert {name: joined[name] for name in ("columns", "from_unix_s", "to_unix_s", "kind")} == {
        name: whole[name] for name in ("columns", "from_unix_s", "to_unix_s", "kind")
    }


def test_windows_stay_within_what_there_is(tab: Tab, fleet_of: FleetOf) -> None:
    page = tab.open(fleet_of(8), "drafter")
    windows = page.evaluate(
        """async () => {
            const { latest, moved, zoomed } = await import("./page/time_window.js");
            const bounds = { from: 1000, to: 2000 };
            let shown = latest(bounds, 100);
            const seen = [];
            for (let turn = 0; turn < 2000; turn++) {
                const part = Math.random();
                const isMove = Math.random() < 0.5;
                shown = isMove ? moved(shown, 4 * part - 2, bounds) : zoomed(shown, 0.1 + 3 * part, part, bounds);
                seen.push([shown.from, shown.to]);
            }
            return seen;
        }"""
    )
    assert all(1000 - 1e-6 <= begin < end <= 2000 + 1e-6 for begin, end in windows)
    assert min(end - begin for begin, end in windows) == pytest.approx(5, abs=1e-6)


def test_a_window_that_follows_grows_until_it_has_what_is_wanted(tab: Tab, fleet_of: FleetOf) -> None:
    page = tab.open(fleet_of(8), "drafter")
    lengths = page.evaluate(
        """async () => {
            const { grown, latest } = await import("./page/time_window.js");
            let shown = latest({ from: 0, to: 20 }, 900);
            const seen = [];
            for (let to = 20; to < 2000; to += 2) {
                const next = grown(shown, { from: 0, to });
                shown = next ?? { ...shown, from: shown.from + 2, to };
                seen.push(shown.to - shown.from);
            }
            return seen;
        }"""
    )
    assert lengths == sorted(lengths)
    assert lengths[-1] == pytest.approx(900, rel=0.1)
