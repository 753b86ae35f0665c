"""A log that cannot be written does not disturb who logs."""

import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import structlog

from tlt_common.telemetry.log import configure, get_logger

LEVELS = ("debug", "info", "warning", "error", "critical")


@pytest.fixture(autouse=True)
def own_configuration() -> Iterator[None]:
    before = structlog.get_config()
    yield
    structlog.configure(**before)


def test_a_full_disk_costs_lines_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    full = Path("/dev/full").open("w", buffering=1)  # noqa: SIM115 - closing it may write, and fail
    monkeypatch.setattr(sys, "stderr", full)
    configure("debug")
    log = get_logger("m")
    for level in LEVELS:
        getattr(log, level)("event", text="x" * 100_000)
    with suppress(OSError):
        full.close()


def test_lines_are_written_at_every_level(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as file:
        monkeypatch.setattr(sys, "stderr", file)
        configure("debug")
        for level in LEVELS:
            getattr(get_logger("m"), level)("event")
        try:
            int("x")
        except ValueError:
            get_logger("m").exception("failed")
    lines = (tmp_path / "log").read_text().splitlines()
    assert len(lines) == len(LEVELS) + 1
    assert "ValueError" in lines[-1]
