"""What a gateway does without: whatever it raises, requests are answered, and the gateway serves on."""

import asyncio
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.fakes.worker import FakeWorker
from tests.integration.gateway.conftest import Start
from tests.integration.gateway.test_coordinator import EIGHT, Views
from tlt_gateway.fleet.queue_report import QueueReport
from tlt_gateway.journal.journal import GatewayJournal
from tlt_gateway.requests.lengths import RequestLengths
from tlt_gateway.workers.discovery import KnownWorkers


def broken(*_args: object, **_options: object) -> NoReturn:
    raise ZeroDivisionError("division by zero")


@pytest.mark.parametrize(
    ("part", "method"),
    [
        (RequestLengths, "load"),
        (RequestLengths, "over"),
        (QueueReport, "_until_due"),
        (KnownWorkers, "report"),
        (GatewayJournal, "response"),
        (GatewayJournal, "_look"),
        (GatewayJournal, "pause"),
    ],
)
async def test_an_observer_that_fails_ends_nothing(
    start: Start, worker: FakeWorker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: type[Any], method: str
) -> None:
    monkeypatch.setattr(part, method, broken)
    views = Views()  # type: ignore[abstract] # implements only what gateways call
    journal = tmp_path / "journal"
    async with views.peer, start(worker, coordinator=views.peer.address, journal=journal) as client:
        for _ in range(3):
            assert len((await client.generate([1, 2], EIGHT)).token_ids) == 8
            await views.reports.get()
        await client.pause()
        await client.proceed()
        async with asyncio.timeout(10):
            assert len((await client.generate([1, 2], EIGHT)).token_ids) == 8
