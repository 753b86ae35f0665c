"""A session of its own, in a real process, with files in the place of the kernel's."""

import subprocess
import sys
from pathlib import Path

import pytest

from tlt_common.processes.own_session import SWITCH

ENTER = """
import os, sys
from pathlib import Path
from tlt_common.processes.own_session import enter_own_session
entered = enter_own_session(12, switch=Path(sys.argv[1]), share=Path(sys.argv[2]))
print(entered, os.getsid(0) == os.getpid())
"""
AUTOGROUP = Path("/proc/self/autogroup")


def entered(switch: Path, share: Path) -> str:
    command = [sys.executable, "-c", ENTER, str(switch), str(share)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_it_leads_a_session_with_the_nice_value(tmp_path: Path) -> None:
    switch, share = tmp_path / "switch", tmp_path / "share"
    switch.write_text("1\n")
    share.touch()
    assert entered(switch, share) == "True True"
    assert share.read_text() == "12\n"


@pytest.mark.parametrize("switched", ["0", ""])
def test_without_shares_by_session_it_stays(tmp_path: Path, switched: str) -> None:
    switch, share = tmp_path / "switch", tmp_path / "share"
    share.touch()
    if switched:
        switch.write_text(switched)
    assert entered(switch, share) == "False False"
    assert share.read_text() == ""


def test_it_stays_where_the_share_cannot_be_set(tmp_path: Path) -> None:
    switch = tmp_path / "switch"
    switch.write_text("1")
    assert entered(switch, tmp_path / "missing") == "False False"


@pytest.mark.skipif(not (SWITCH.exists() and AUTOGROUP.exists()), reason="the kernel knows no shares of sessions")
def test_the_kernel_accepts_the_share() -> None:
    if SWITCH.read_text().strip() != "1":
        pytest.skip("shares by session are off")
    before = AUTOGROUP.read_text()
    assert entered(SWITCH, AUTOGROUP) == "True True"
    assert AUTOGROUP.read_text() == before  # of this process


def test_a_leader_of_a_group_stays(tmp_path: Path) -> None:
    switch, share = tmp_path / "switch", tmp_path / "share"
    switch.write_text("1")
    share.touch()
    command = [sys.executable, "-c", ENTER, str(switch), str(share)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, process_group=0)
    assert ran.stdout.strip() == "False False"
