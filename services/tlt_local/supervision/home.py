"""The files of a run, and the guard that removes them."""

import asyncio
import json
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tlt_common.telemetry.log import get_logger
from tlt_local.supervision import guard

log = get_logger(__name__)

WEIGHTS = "weights"
CLEAR_S = 2 * (guard.GRACE_S + guard.SWEEP_S)
ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # Ray's default is 15: engines would have the lowest priority, hardly above that of their spot trainers.
    "RAY_worker_niceness": "0",
    # Trainers set this variable so that Ray assigns no GPUs; all our engines would then use the first one.
    "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES": "0",
    # gRPC's fork hooks warn about every child process; ours call exec at once.
    "GRPC_ENABLE_FORK_SUPPORT": "0",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """Files of a run, and the token that marks its processes."""

    directory: Path
    """Private and short: it holds unix sockets, whose paths are limited to 107 characters."""
    data: Path
    """Checkpoints, drafters and logs; inside `directory` unless they are kept."""
    token: str
    """Marks every process of the run."""
    leave: Callable[[], None]
    """Announce an orderly end to the guard. Call it once, before any process is stopped."""

    @property
    def environment(self) -> Mapping[str, str]:
        """
        Environment variables of every process of the run. Temporary files of libraries are removed with the run, and so
        are files for a missing or read-only home directory, without which Ray does not start.
        """
        temporary = str(self.directory / "tmp")
        home = {} if os.access(os.path.expanduser("~"), os.W_OK | os.X_OK) else {"HOME": temporary}  # noqa: PTH111 - of a user that is unknown, Path raises
        return {**guard.environment(self.token), "TMPDIR": temporary, **home, **ENVIRONMENT}

    @property
    def logs(self) -> Path:
        return self.data / "logs"

    @property
    def weights(self) -> Path:
        """Directory of streamed weights, which gateways write and workers read."""
        return self.directory / WEIGHTS

    def addresses(self, name: str) -> Path:
        """Return the file that a process writes its addresses to once it serves."""
        return self.directory / "addresses" / f"{name}.json"

    def all_addresses(self) -> dict[str, Mapping[str, str]]:
        """Return the addresses of every process, by its name."""
        found = {}
        for path in self.addresses("any").parent.glob("*.json"):
            with suppress(FileNotFoundError):  # it has exited
                found[path.stem] = json.loads(path.read_text())
        return found


@asynccontextmanager
async def guarded(data: Path | None) -> AsyncIterator[Home]:
    """
    Create a home. At the end, or when this process dies, the run's processes are killed and the home is removed.

    Args:
        data: Directory of files to keep; None keeps nothing.
    """
    token = secrets.token_hex(8)
    # Not in TMPDIR, which may be long: Ray's sockets need 80 characters below it.
    directory = Path(tempfile.mkdtemp(prefix="tlt-", dir="/tmp"))
    try:
        watcher = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tlt_local.supervision.guard", token, str(directory)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    except BaseException:
        shutil.rmtree(directory)
        raise
    try:
        assert watcher.stdin is not None  # noqa: S101 - it is a pipe
        yield _created(directory, data, token, leave=partial(watcher.stdin.write, b"."))
    finally:
        await asyncio.shield(_clear(watcher))


def _created(directory: Path, data: Path | None, token: str, *, leave: Callable[[], None]) -> Home:
    home = Home(directory=directory, data=data.resolve() if data else directory / "data", token=token, leave=leave)
    for folder in (directory / "tmp", home.logs, home.addresses("any").parent):
        folder.mkdir(parents=True, exist_ok=True)
    return home


async def _clear(watcher: asyncio.subprocess.Process) -> None:
    assert watcher.stdin is not None  # noqa: S101 - it is a pipe
    watcher.stdin.close()
    try:
        async with asyncio.timeout(CLEAR_S):
            killed, _ = await watcher.communicate()
    except TimeoutError:  # it goes on by itself; an error would replace what the run came to
        log.warning("processes_still_exit", after_s=CLEAR_S)
        return
    # Ray's agents exit only seconds after Ray itself; killing them is expected.
    if names := [name for name in json.loads(killed) if not name.startswith("ray::")]:
        log.warning("processes_left_behind", killed=names)
