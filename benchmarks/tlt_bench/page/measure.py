"""What the page costs a browser: first paint, time per frame, bytes."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import typer
from playwright.sync_api import Browser, Page

from countdown.browser import browsing
from tlt_bench.page.served_page import serving
from tlt_bench.result import Result

SIZES = (8, 512, 10_240)
VIEWS = ("fleet", "timeline", "step", "drafter")
WATCHED_S = 8.0
"""With live changes, and nothing else."""
WARM_S = 3.0
FRAMES = 180

FRAME_TIMES = """(act) => new Promise((resolve) => {
    const canvas = document.querySelector("canvas[tabindex]");
    const box = canvas?.getBoundingClientRect();
    const times = [];
    const began = performance.now();
    const frame = () => {
        const start = performance.now();
        // Arrives when the browser has done all that this frame needs of the main thread.
        const channel = new MessageChannel();
        channel.port1.onmessage = () => {
            times.push(performance.now() - start);
            const goesOn = act.frames ? times.length < act.frames : performance.now() - began < act.ms;
            if (goesOn) requestAnimationFrame(frame); else resolve(times);
        };
        channel.port2.postMessage(null);
        if (act.frames) canvas.dispatchEvent(new WheelEvent("wheel", {
            deltaY: times.length % 60 < 30 ? -40 : 40, ctrlKey: true, cancelable: true, bubbles: true,
            clientX: box.left + box.width / 2, clientY: box.top + 40,
        }));
    };
    requestAnimationFrame(frame);
})"""
"""Time of the main thread per frame: from the frame's begin until its layout and painting are done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredPage:
    """Figures of one fleet's page."""

    first_paint_ms: float
    """Until the browser painted something."""
    ready_ms: float
    """Until figures, workers and timeline of the first view were shown."""
    zoom_frame_ms: Sequence[float]
    live_frame_ms: Sequence[float]
    mb: float
    """Received until each view was shown once, changes that arrived meanwhile included."""
    live_kb_per_s: float


def measure(sizes: Sequence[int] = SIZES, repeats: int = 3) -> Result:
    """Open the page over fleets of these sizes."""
    measured = dict[int, list[MeasuredPage]]()
    for size in sizes:
        with serving(size) as served, browsing() as browser:
            _opened(browser, served.url)  # compiles, and fills the caches of the machine
            measured[size] = [_measured(browser, served.url) for _ in range(repeats)]
            typer.echo(f"{size} workers: ready in {measured[size][0].ready_ms:.0f} ms", err=True)
    return result_of(measured)


def result_of(measured: dict[int, list[MeasuredPage]]) -> Result:
    """Return the figures of all sizes."""
    figures, spread = dict[str, float](), dict[str, tuple[float, float]]()
    for size, pages in measured.items():
        values = {
            "first_paint_ms": [page.first_paint_ms for page in pages],
            "ready_ms": [page.ready_ms for page in pages],
            "zoom_frame_ms_p95": [_p95(page.zoom_frame_ms) for page in pages],
            "live_frame_ms_p95": [_p95(page.live_frame_ms) for page in pages],
            "mb": [page.mb for page in pages],
            "live_kb_per_s": [page.live_kb_per_s for page in pages],
        }
        for name, each in values.items():
            figures[f"{name}_{size}"] = median(each)
            spread[f"{name}_{size}"] = (min(each), max(each))
    return Result(
        name="page",
        figures=figures,
        spread=spread,
        repeats=len(next(iter(measured.values()))),
        notes={
            "first_paint_ms": "from the request for the page until the browser painted something",
            "ready_ms": "until figures, workers and timeline of the fleet were shown",
            "zoom_frame_ms": f"time of the main thread per frame while the timeline is zoomed, {FRAMES} frames",
            "live_frame_ms": f"the same with live changes alone, {WATCHED_S:g} s",
            "mb": "received until every view was shown once, in 10^6 bytes",
            "live_kb_per_s": "received afterwards, with the fleet in view",
            "load": f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, which the coordinator, its "
            "simulated fleet and the browser share; no GPU paints",
        },
    )


def _p95(times: Sequence[float]) -> float:
    return sorted(times)[len(times) * 95 // 100]


def _opened(browser: Browser, url: str) -> None:
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(f"{url}#/fleet")
        _shown(page, "fleet")


def _measured(browser: Browser, url: str) -> MeasuredPage:
    with browser.new_context(viewport={"width": 1440, "height": 900}) as context:
        page = context.new_page()
        received = _counting(page)
        page.goto(f"{url}#/fleet", wait_until="commit")
        _shown(page, "fleet")
        first_paint_ms, ready_ms = page.evaluate(
            "[performance.getEntriesByName('first-contentful-paint')[0].startTime, performance.now()]"
        )
        for view in VIEWS[1:]:
            page.goto(f"{url}#/{view}")
            _shown(page, view)
        mb = sum(received) / 1e6
        page.goto(f"{url}#/timeline")
        _shown(page, "timeline")
        page.wait_for_timeout(WARM_S * 1e3)
        zoom = page.evaluate(FRAME_TIMES, {"frames": FRAMES})
        page.goto(f"{url}#/fleet")
        _shown(page, "fleet")
        before = sum(received)
        live = page.evaluate(FRAME_TIMES, {"ms": WATCHED_S * 1e3})
        return MeasuredPage(
            first_paint_ms=first_paint_ms,
            ready_ms=ready_ms,
            zoom_frame_ms=zoom,
            live_frame_ms=live,
            mb=mb,
            live_kb_per_s=(sum(received) - before) / 1e3 / WATCHED_S,
        )


def _counting(page: Page) -> list[float]:
    """Return a list to which the bytes are added that the page receives."""
    received = list[float]()
    network = page.context.new_cdp_session(page)
    network.send("Network.enable")

    def data(event: dict[str, Any]) -> None:
        received.append(event.get("encodedDataLength") or event["dataLength"])

    network.on("Network.dataReceived", data)
    return received


def _shown(page: Page, view: str) -> None:
    """Wait until a view is complete."""
    page.wait_for_selector(f".view.{view} h1")
    if view == "fleet":
        page.wait_for_selector(".view.fleet table tbody tr")
    if view in {"fleet", "timeline"}:
        page.wait_for_selector(f".view.{view} canvas.timeline[aria-label^=States]")
