"""Child processes are asked to end, and killed if they do not."""

import signal
import subprocess
import sys

import pytest

from tlt_common.processes.children import ended_after_block

DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
WAITING = "print(flush=True); signal.pause()"


@pytest.mark.parametrize(
    ("program", "within_s", "ended_by"),
    [("import signal; ", 60.0, signal.SIGTERM), (DEAF, 0.05, signal.SIGKILL)],
)
def test_a_process_that_does_not_end_in_time_is_killed(program: str, within_s: float, ended_by: int) -> None:
    command = [sys.executable, "-S", "-c", program + WAITING]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        with ended_after_block(process, within_s):
            assert process.stdout is not None
            process.stdout.readline()
            assert process.poll() is None
        assert process.returncode == -ended_by
