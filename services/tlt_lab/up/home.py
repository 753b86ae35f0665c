"""Where a run keeps its files, and the guard that clears them away."""

import asyncio
import json
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
from tlt_lab.up import guard

log = get_logger(__name__)

CLEAR_S = 2 * (guard.GRACE_S + guard.SWEEP_S)
ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # Ray's default is 15: engines would come after everything else, and hardly before their spot trainers.
    "RAY_worker_niceness": "0",
    # gRPC's hooks around fork warn about every child that is started; ours call exec at once.
    "GRPC_ENABLE_FORK_SUPPORT": "0",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """The files of a run, and what marks its processes."""

    directory: Path
    """Private and short: unix sockets lie here, and their paths have at most 107 characters."""
    data: Path
    """Checkpoints and drafters; in `directory` unless somebody wants to keep them."""
    token: str
    """Marks every process of the run."""
    leave: Callable[[], None]
    """Tells the guard that the run is about to end in order. To be called once, before anybody is stopped."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables of every process of the run. Temporary files of libraries go the same way as ours."""
        return {**guard.environment(self.token), "TMPDIR": str(self.directory / "tmp"), **ENVIRONMENT}

    @property
    def logs(self) -> Path:
        return self.data / "logs"

    def addresses(self, name: str) -> Path:
        """File a process writes its addresses to once it serves."""
        return self.directory / "addresses" / f"{name}.json"

    def all_addresses(self) -> dict[str, Mapping[str, str]]:
        """What every process wrote, by name."""
        found = {}
        for path in self.addresses("any").parent.glob("*.json"):
            with suppress(FileNotFoundError):  # it ended since
                found[path.stem] = json.loads(path.read_text())
        return found


@asynccontextmanager
async def guarded(data: Path | None) -> AsyncIterator[Home]:
    """
    Make a home; at the end, or when this process dies, kill whoever still lives in it and remove it.

    Args:
        data: Directory to keep; None keeps nothing.
    """
    token = secrets.token_hex(8)
    # Not in TMPDIR, which may be long: Ray's sockets need 80 characters below it.
    directory = Path(tempfile.mkdtemp(prefix="tlt-", dir="/tmp"))
    try:
        watcher = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tlt_lab.up.guard", token, str(directory)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    except BaseException:
        shutil.rmtree(directory)
        raise
    try:
        assert watcher.stdin is not None  # noqa: S101 - it is a pipe
        yield _furnished(directory, data, token, leave=partial(watcher.stdin.write, b"."))
    finally:
        await asyncio.shield(_clear(watcher))


def _furnished(directory: Path, data: Path | None, token: str, *, leave: Callable[[], None]) -> Home:
    home = Home(directory=directory, data=data.resolve() if data else directory / "data", token=token, leave=leave)
    for folder in (directory / "tmp", home.logs, home.addresses("any").parent):
        folder.mkdir(parents=True, exist_ok=True)
    return home


async def _clear(watcher: asyncio.subprocess.Process) -> None:
    async with asyncio.timeout(CLEAR_S):
        killed, _ = await watcher.communicate(b"")
    # Ray's agents notice only after seconds that their Ray has ended; they are not waited for.
    if names := [name for name in json.loads(killed) if not name.startswith("ray::")]:
        log.warning("processes_left_behind", killed=names)
