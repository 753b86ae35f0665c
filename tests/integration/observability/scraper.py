"""A private Prometheus whose scrape targets can be changed while it runs."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from grafana.prometheus import Prometheus
from tests.cluster.kube.binaries import binary

START_S = 60.0
STOP_S = 10.0
LOOK_S = 0.2
CONFIG = """
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
  - job_name: tlt
    file_sd_configs: [{{files: [{targets}], refresh_interval: 1s}}]
"""


class Scraper:
    """A running Prometheus server."""

    def __init__(self, url: str, targets: Path) -> None:
        self.url = url
        self.prometheus = Prometheus(url)
        self._targets = targets

    def watch(self, addresses: Mapping[str, str]) -> None:
        """Scrape these processes, labeled as by the chart's monitors. A trainer has the pod label of its worker."""
        groups = [
            {
                "targets": [address],
                "labels": {"namespace": "local", "release": "demo", "pod": name.removesuffix("-trainer")},
            }
            for name, address in addresses.items()
        ]
        partial = self._targets.with_suffix(".partial")
        partial.write_text(json.dumps(groups))
        partial.replace(self._targets)


@asynccontextmanager
async def scraping(directory: Path) -> AsyncIterator[Scraper]:
    """Run a Prometheus server within the context."""
    config, targets = directory / "prometheus.yaml", directory / "targets.json"
    config.write_text(CONFIG.format(targets=targets))
    targets.write_text("[]")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with (directory / "prometheus.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            binary("prometheus"),
            *("--config.file", config, "--storage.tsdb.path", directory / "data"),
            *("--web.listen-address", f"127.0.0.1:{port}", "--log.level", "warn"),
            stdout=log,
            stderr=log,
        )
    scraper = Scraper(f"http://127.0.0.1:{port}", targets)
    try:
        async with asyncio.timeout(START_S):
            while not await _answers(port):  # noqa: ASYNC110 - started by another process
                await asyncio.sleep(LOOK_S)
        yield scraper
    finally:
        process.terminate()
        async with asyncio.timeout(STOP_S):
            await process.wait()


async def _answers(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True
