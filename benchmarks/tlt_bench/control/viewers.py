"""
Browsers that show the page: `python -m tlt_bench.control.viewers ADDRESS COUNT`, until killed.

Each reads events, follows the timeline as the page does, and reads all of it now and then. Prints, as JSON, what they
got since the last time, for every line it reads.
"""

import asyncio
import json
import sys
import time
from typing import Never

import httpx

from tlt_common.telemetry.log import configure

FOLLOW_S, FOLLOWED_S, FOLLOWED_COLUMNS = 2.0, 12.0, 7
"""How often the page reads the end of the timeline, and how much of it."""
WHOLE_S = 20.0
"""How often somebody zooms, and all of it is read."""
ANSWER_S = 60.0


class Viewer:
    """
    One browser.

    Attributes:
        events: Events it got.
        answers_ms: What it waited for answers.
        size: Bytes it got.
    """

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client
        self.events = self.size = 0
        self.answers_ms: list[float] = []

    async def read_events(self) -> Never:
        """Read events, for ever."""
        while True:
            async with self._client.stream("GET", "/api/v1/events") as answer:
                answer.raise_for_status()
                async for part in answer.aiter_raw():
                    self.size += len(part)
                    self.events += part.count(b"event: changes")

    async def look(self, begin_s: float) -> Never:
        """Follow the timeline, from a moment on, so that not all viewers ask at once."""
        await asyncio.sleep(begin_s)
        looked = 0
        while True:
            if looked % round(WHOLE_S / FOLLOW_S) == 0:
                for path in ("fleet", "workers", "timeline"):
                    await self._get(path)
            now_s = json.loads(await self._get("fleet"))["at_unix_s"]
            await self._get(f"timeline?from={now_s - FOLLOWED_S}&to={now_s}&columns={FOLLOWED_COLUMNS}")
            looked += 1
            await asyncio.sleep(FOLLOW_S)

    async def _get(self, path: str) -> bytes:
        began_s = time.perf_counter()
        answer = await self._client.get(f"/api/v1/{path}")
        answer.raise_for_status()
        self.answers_ms.append((time.perf_counter() - began_s) * 1e3)
        self.size += len(answer.content)
        return answer.content


async def main(address: str, count: int) -> Never:
    """Run until killed."""
    limits = httpx.Limits(max_connections=None)
    url = f"http://{address}"
    async with httpx.AsyncClient(base_url=url, timeout=ANSWER_S, limits=limits, trust_env=False) as client:
        viewers = [Viewer(client) for _ in range(count)]
        async with asyncio.TaskGroup() as parts:
            parts.create_task(_print_figures(viewers))
            for number, viewer in enumerate(viewers):
                parts.create_task(viewer.read_events())
                parts.create_task(viewer.look(FOLLOWED_S + number * WHOLE_S / count))
    raise AssertionError("viewers never end")


async def _print_figures(viewers: list[Viewer]) -> None:
    while await asyncio.to_thread(sys.stdin.readline):
        figures = {
            "events": sum(viewer.events for viewer in viewers),
            "size": sum(viewer.size for viewer in viewers),
            "answers_ms": [ms for viewer in viewers for ms in viewer.answers_ms],
        }
        for viewer in viewers:
            viewer.events = viewer.size = 0
            viewer.answers_ms.clear()
        sys.stdout.write(json.dumps(figures) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    configure("error")
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
