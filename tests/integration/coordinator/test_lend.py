"""`tlt lend` against a running coordinator."""

import asyncio
import sys

import pytest

from tests.fakes.lease_holder import LeaseHolder
from tests.integration.coordinator.conftest import Start
from tests.integration.coordinator.test_fleet import fleet_at

COMMAND = ("-m", "tlt_common.cli", "lend")


async def tlt_lend(address: str, *arguments: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *COMMAND,
        *arguments,
        "--coordinator",
        address,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    return process.returncode or 0, output.decode()


async def test_lending_is_switched_for_all_or_for_some(start: Start) -> None:
    async with start(silence_s=60) as at, LeaseHolder(at.grpc, "w0"), LeaseHolder(at.grpc, "w1"):
        assert await tlt_lend(at.grpc, "off") == (0, "lending was on, and is off\n")
        assert not (await fleet_at(at.grpc)).lending
        assert await tlt_lend(at.grpc, "on") == (0, "lending was off, and is on\n")
        assert await tlt_lend(at.grpc, "exclude", "w1", "w0") == (0, "excluded: w0, w1\n")
        assert {account.standing for account in (await fleet_at(at.grpc)).workers} == {"excluded"}
        assert await tlt_lend(at.grpc, "include", "w0", "w1") == (0, "excluded: none\n")
        code, output = await tlt_lend(at.grpc, "exclude", "w9")
        assert code != 0
        assert "no worker 'w9' was seen; accepted: w0, w1" in output


@pytest.mark.parametrize("arguments", [("maybe",), ("on", "w0"), ("exclude",)])
async def test_what_lend_does_not_accept_is_refused(arguments: tuple[str, ...]) -> None:
    code, output = await tlt_lend("127.0.0.1:1", *arguments)
    assert code == 2
    assert {"maybe": "No such command", "on": "unexpected extra argument", "exclude": "Missing argument"}[
        arguments[0]
    ] in output
