"""The environment of a run's processes."""

import os
from pathlib import Path

import pytest

from tlt_local.supervision.home import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(directory=tmp_path / "run", data=tmp_path / "run", token="", leave=lambda: None)


def test_a_home_directory_that_can_be_written_to_stays(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert "HOME" not in home.environment


@pytest.mark.parametrize("missing", [True, False])
def test_a_home_directory_that_is_missing_or_read_only_is_replaced(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: bool
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "nowhere") if missing else "/proc")
    if not missing and os.access("/proc", os.W_OK):
        pytest.skip("needs a user who may not write to /proc, or a kernel that says so")
    assert home.environment["HOME"] == home.environment["TMPDIR"]
