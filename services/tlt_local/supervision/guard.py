"""
Cleans up after a run, even if `tlt up` is killed.

Run as `python -m tlt_local.supervision.guard TOKEN DIRECTORY`. A byte on standard input announces an orderly end; end
of input means that the owner has exited. The guard then kills every process that carries the token in its environment,
with its descendants, removes their shared memory and the directory, and prints the names of the killed processes as
JSON. It imports little besides the standard library, so that it takes only 10 MB of memory.
"""

import json
import os
import shutil
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tlt_common.processes.guard import ProcessEntry, doomed, living, shared_memory, sweep

TOKEN_VARIABLE = "TLT_RUN_TOKEN"  # noqa: S105 - a marker, not a secret
GRACE_S = 1.0
"""Time for processes to exit by themselves after an orderly end was announced."""
SWEEP_S = 10.0
"""Time limit of killing."""


def environment(token: str) -> Mapping[str, str]:
    """Return the variables that mark a process as part of the run."""
    # SPT_NOENV keeps the setproctitle library, which SGLang and Ray use, from overwriting the environment.
    return {TOKEN_VARIABLE: token, "SPT_NOENV": "1"}


def processes(token: str) -> list[ProcessEntry]:
    """Return all running processes this user may inspect."""
    return living(f"{TOKEN_VARIABLE}={token}")


def mapped(token: str) -> set[Path]:
    """Return the shared memory files of all processes of the run."""
    return {path for pid in doomed(processes(token), os.getpid()) for path in shared_memory(pid)}


def main(token: str, directory: str) -> int:
    """Wait for the end of the run, then clean up."""
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    announced = os.read(0, 1)
    # Listed before any process exits: Ray kills the processes that would remove their own shared memory.
    shared = mapped(token)
    sys.stdin.buffer.read()
    grace_s = GRACE_S if announced else 0.0
    killed = sweep(f"{TOKEN_VARIABLE}={token}", grace_s=grace_s, limit_s=SWEEP_S, awaits_trackers=True)
    for path in shared:
        path.unlink(missing_ok=True)
    shutil.rmtree(directory, ignore_errors=True)
    with suppress(BrokenPipeError):  # the owner was killed
        os.write(1, json.dumps(killed).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
