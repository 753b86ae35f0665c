"""The password of a Redis: on no command line, in no log, in no answer. And a Redis with TLS."""

import asyncio
import json
import os
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.fakes.authority import Authority
from tlt_cache.embedded import executable
from tlt_cache.redis_frame_store import RedisFrameStore
from tlt_common.config.redis_url import connection_options
from tlt_common.errors import CacheUnavailableError
from tlt_common.processes.parent_death import killed_with_parent
from tlt_tuner.redis_pool_store import RedisPoolStore

SECRET = "hunter2-is-secret"  # noqa: S105 - that of a Redis that this module starts
WAIT_S = 60.0
LOOK_S = 0.05


@pytest.fixture
async def socket(tmp_path: Path) -> AsyncIterator[Path]:
    """A Redis that demands a password, which it read from a file."""
    path, conf = tmp_path / "redis.sock", tmp_path / "redis.conf"
    conf.write_text(f'port 0\nunixsocket {path}\nrequirepass {SECRET}\nsave ""\ndir {tmp_path}\n')
    process = await asyncio.create_subprocess_exec(
        *killed_with_parent([executable(), str(conf)]), stdout=asyncio.subprocess.DEVNULL
    )
    try:
        async with asyncio.timeout(WAIT_S):
            while not path.exists():  # noqa: ASYNC110 - Redis sends no notification
                await asyncio.sleep(LOOK_S)
        yield path
    finally:
        process.kill()
        await process.wait()


@asynccontextmanager
async def forwarding(socket: Path, tls: ssl.SSLContext | None) -> AsyncIterator[int]:
    """A port that forwards to the socket, with or without TLS."""

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_unix_connection(socket)
        pairs = ((reader, there_writer), (there_reader, writer))
        async with asyncio.TaskGroup() as both:
            for source, sink in pairs:
                both.create_task(_copied(source, sink))

    async with await asyncio.start_server(forward, "127.0.0.1", 0, ssl=tls) as server:
        yield server.sockets[0].getsockname()[1]


async def _copied(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()
    except OSError:
        pass
    finally:
        sink.close()


def context_of(authority: Authority) -> ssl.SSLContext:
    files = authority.issue("redis")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(files.certificate, files.key)
    return context


async def test_cache_and_tuner_use_a_redis_with_tls_and_verify_it(socket: Path, tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path / "ours"), Authority(tmp_path / "other")
    async with forwarding(socket, context_of(authority)) as port:
        url = f"rediss://:{SECRET}@localhost:{port}/0"
        frames = RedisFrameStore(url, fleet="f", budget_bytes=2**20, tls=connection_options(url, authority.ca))
        pools = RedisPoolStore(url, fleet="f", tls=connection_options(url, authority.ca))
        deceived = RedisFrameStore(url, fleet="f", budget_bytes=2**20, tls=connection_options(url, stranger.ca))
        await frames.ping()
        assert await pools.load() == {}
        with pytest.raises(CacheUnavailableError, match="certificate verify failed") as refusal:
            await deceived.ping()
        assert SECRET not in refusal.value.message
        for store in (frames, pools, deceived):
            await store.aclose()


@pytest.mark.parametrize("given", [SECRET, f"{SECRET}-wrong"], ids=["right", "wrong"])
async def test_a_password_is_on_no_command_line_and_in_no_log(given: str, socket: Path, tmp_path: Path) -> None:
    async with forwarding(socket, None) as port:
        environment = {
            "TLT_CACHE_REDIS": f"redis://:{given}@127.0.0.1:{port}/0",
            "TLT_TUNER_REDIS": f"redis://:{given}@127.0.0.1:{port}/0",
        }
        output = ""
        for name in ("cache", "tuner"):
            log, ports = tmp_path / f"{name}.log", tmp_path / f"{name}.json"
            async with serving(name, environment, ports, log) as pid:
                async with asyncio.timeout(WAIT_S):
                    while not ports.exists():  # noqa: ASYNC110 - a file
                        await asyncio.sleep(LOOK_S)
                assert given not in command_line(pid)
                assert SECRET not in command_lines()
            output += log.read_text()
        checked = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tlt_common.cli", "config", "check", "cache"),
            env={**os.environ, **environment},
            stdout=asyncio.subprocess.PIPE,
        )
        shown, _ = await checked.communicate()
        assert json.loads(shown)["redis"] == "**********"
        assert SECRET not in output
        assert f"127.0.0.1:{port}" in output  # where it connects to is logged


@asynccontextmanager
async def serving(name: str, environment: dict[str, str], ports: Path, log: Path) -> AsyncIterator[int]:
    options = ("--set", f"port_file={ports}", "--set", "log_level=debug")
    with log.open("wb") as stream:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tlt_common.cli", "serve", name, *options),
            env={**os.environ, **environment},
            stdout=stream,
            stderr=stream,
        )
    try:
        yield process.pid
    finally:
        process.terminate()
        await process.wait()


def command_line(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")


def command_lines() -> str:
    """The command lines of all processes that this one started, directly or not."""
    found, waiting = [], [os.getpid()]
    while waiting:
        pid = waiting.pop()
        try:
            found.append(command_line(pid))
            children = Path(f"/proc/{pid}/task").glob("*/children")
            waiting += [int(child) for path in children for child in path.read_text().split()]
        except OSError:
            continue
    assert any("redis-server" in line for line in found)
    return "\n".join(found)
