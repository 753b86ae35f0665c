"""`tlt health` and `tlt status`, run from the command line."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from tests.fakes.authority import Authority
from tests.fakes.worker import FakeWorker
from tests.integration.security.conftest import alive
from tlt_common.config.base import TlsSettings
from tlt_coordinator.config import CoordinatorConfig
from tlt_coordinator.main import serve

SERVICE = "tlt.worker.v1.WorkerService"


async def tlt(*arguments: str) -> tuple[int, str, str]:
    """Return exit code, stdout and stderr."""
    program = [sys.executable, "-m", "tlt_common.cli", *arguments]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*program, stdout=pipe, stderr=pipe)
    async with asyncio.timeout(60):
        output, said = await process.communicate()
    return process.returncode or 0, output.decode(), said.decode()


def options(tls: TlsSettings) -> tuple[str, ...]:
    return ("--ca", str(tls.ca), "--certificate", str(tls.certificate), "--key", str(tls.key))


@pytest.mark.parametrize("service", [(), ("--service", SERVICE)])
async def test_a_service_that_takes_calls_is_healthy(service: tuple[str, ...]) -> None:
    async with FakeWorker() as fake:
        assert await tlt("health", fake.address, *service) == (0, "SERVING\n", "")


async def test_what_drains_is_not_there_or_is_another_service_is_not_healthy() -> None:
    async with FakeWorker() as fake:
        code, output, said = await tlt("health", fake.address, "--service", "tlt.other.v1.OtherService")
        assert (code, output) == (1, "")
        with fake.drain.call("Generate"):
            draining = asyncio.ensure_future(fake.drain.complete(60))
            code, output, said = await tlt("health", fake.address)
        assert (code, output, said) == (1, "", "tlt: the service reports NOT_SERVING\n")
        await draining
    code, output, said = await tlt("health", fake.address)
    assert (code, output) == (1, "")
    assert f"nothing answers at {fake.address}" in said
    assert "`tlt serve NAME`" in said


async def test_operators_commands_say_what_to_start_if_no_coordinator_answers() -> None:
    for command in (("status",), ("lend", "off"), ("lend", "exclude", "worker-0")):
        code, output, said = await tlt(*command, "--coordinator", "127.0.0.1:1")
        assert (code, output) == (1, "")
        assert "no coordinator answers at 127.0.0.1:1; start a suite with `tlt up" in said


async def test_health_over_mutual_tls(worker: FakeWorker, authority: Authority, tmp_path: Path) -> None:
    mine = authority.issue("admin")
    assert (await tlt("health", worker.address, *options(mine)))[0] == 0
    named = ("--server-name", "worker.tlt.internal")
    assert (await tlt("health", worker.address, *options(mine), *named))[0] == 0
    assert (await tlt("health", worker.address, *options(mine), "--server-name", "cache.tlt.internal"))[0] == 1
    assert (await tlt("health", worker.address, "--ca", str(mine.ca)))[0] == 1
    assert (await tlt("health", worker.address))[0] == 1
    code, _, said = await tlt("health", worker.address, "--certificate", str(mine.certificate))
    assert (code, "require each other" in said) == (2, True)


async def test_an_operator_sees_the_status_of_a_suite_with_tls(authority: Authority) -> None:
    config = CoordinatorConfig(tls=authority.issue("coordinator"), http_listen=None)
    async with alive(lambda tell: serve(config, on_serving=tell)) as served:
        look = ("status", "--json", "--coordinator", served.grpc)
        code, output, _ = await tlt(*look, *options(authority.issue("admin")))
        assert (code, json.loads(output)["workers"]) == (0, [])
        code, _, said = await tlt(*look, *options(authority.issue("gateway")))
        assert (code, "accepted: " in said, "admin.tlt.internal" in said) == (1, True, True)
        code, output, _ = await tlt(*look, *options(authority.issue("observe")))
        assert (code, json.loads(output)["workers"]) == (0, [])
        assert (await tlt(*look))[0] == 1
