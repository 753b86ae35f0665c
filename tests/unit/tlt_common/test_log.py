"""A log that cannot be written does not disturb who logs."""

import io
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tlt_common.telemetry.log import configure, get_logger

LEVELS = ("debug", "info", "warning", "error", "critical")


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


class Unbuffered(io.StringIO):
    """A stream that passes on every write at once, as stderr does with PYTHONUNBUFFERED."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[str] = []

    def write(self, text: str) -> int:
        self.writes.append(text)
        return len(text)


def test_a_line_is_one_write_so_that_processes_can_share_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Unbuffered()
    monkeypatch.setattr(sys, "stderr", stream)
    configure("debug")
    for level in LEVELS:
        getattr(get_logger("m"), level)("event")
    assert len(stream.writes) == len(LEVELS)
    assert all(text.endswith("}\n") for text in stream.writes)


def test_a_process_of_a_library_logs_no_local_variables() -> None:
    code = (
        "from tlt_common.telemetry.log import configure_child, get_logger\n"
        "configure_child()\n"
        "def fails(prompt):\n"
        "    try:\n"
        "        raise ValueError('reason')\n"
        "    except ValueError as error:\n"
        "        get_logger('m').error('failed', exc_info=error)\n"
        "fails('a secret prompt')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "reason" in done.stderr
    assert "a secret prompt" not in done.stderr.replace(code, "")
