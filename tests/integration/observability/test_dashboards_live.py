"""Every query of every dashboard, evaluated by a Prometheus that scrapes the running suite."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from grafana.walk import PanelQuery, queries_of, substitute
from grafana.write import BOARDS
from tests.cluster.kube.binaries import missing
from tests.integration.observability.load import train
from tests.integration.observability.scraper import Scraper, scraping
from tlt_local.configuration.config import StackConfig
from tlt_local.stack import Stack

pytestmark = [
    pytest.mark.stack,
    pytest.mark.timeout(1500),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(missing("prometheus") is not None, reason=missing("prometheus") or ""),
]

MODEL = Path(__file__).parents[3] / "demos" / "countdown" / "countdown" / "checkpoint"
SETTINGS = {
    # Publish a drafter within the first minute, and scores soon after: only their presence matters.
    "trainer": {
        "publish.first_gain": "0",
        "publish.every_tokens": "16384",
    },
    "worker": {"engine.context_length": "1024"},
}
WINDOW_S, STEP_S = 15, 2
LONGEST_S = 420.0
LOOK_S = 10.0
SILENT = {("TLT / Fleet health", "Next certificate expiry"): "there are no certificates without TLS"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """The running suite, as scraped by Prometheus."""

    scraper: Scraper
    began_s: float

    def empty(self) -> set[tuple[str, str]]:
        """Return the panels with a query that returns no data."""
        return {
            (query.board, query.panel) for make in BOARDS.values() for query in queries_of(make()) if self.lacks(query)
        }

    def lacks(self, query: PanelQuery) -> bool:
        """Whether a query returns no number at any time."""
        now_s = time.time()
        expr = substitute(query.expr, range_s=WINDOW_S + int(now_s - self.began_s), window_s=WINDOW_S)
        if query.instant:
            found = self.scraper.prometheus.at(expr, now_s)
        else:
            found = self.scraper.prometheus.over(expr, self.began_s, now_s, STEP_S)
        return not any(series.has_numbers for series in found)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def observed(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Observed]:
    directory = tmp_path_factory.mktemp("prometheus")
    config = StackConfig(model=MODEL, workers=2, cores_per_worker=1, settings=SETTINGS)
    async with scraping(directory) as scraper, Stack(config) as stack, asyncio.TaskGroup() as tasks:
        began_s = time.time()
        followed = tasks.create_task(_follow(scraper, stack))
        asking = tasks.create_task(train(stack.endpoint, MODEL))
        yield Observed(scraper=scraper, began_s=began_s)
        for task in (followed, asking):
            task.cancel()


async def _follow(scraper: Scraper, stack: Stack) -> None:
    while True:  # trainers start later than the other processes
        scraper.watch(stack.metrics)
        await asyncio.sleep(1.0)


async def test_every_query_of_every_panel_brings_data(observed: Observed) -> None:
    deadline_s = time.monotonic() + LONGEST_S
    while (empty := await asyncio.to_thread(observed.empty)) - SILENT.keys() and time.monotonic() < deadline_s:  # noqa: ASYNC110
        await asyncio.sleep(LOOK_S)
    assert empty <= SILENT.keys(), f"after {LONGEST_S:g} s"
