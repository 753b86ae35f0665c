"""`tlt up` prints what keeps workers from training, once, and goes on whatever the coordinator answers."""

import asyncio
import io
from dataclasses import replace

import pytest
from rich.console import Console

from tests.fakes.lease_holder import IDLE, LeaseHolder, hello
from tlt_coordinator.config import CoordinatorConfig
from tlt_coordinator.main import Addresses, serve
from tlt_local import watch

PROBLEM = "the spot trainer does not run: no vocab_size"


async def test_a_problem_is_told_once_and_an_unreachable_coordinator_ends_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watch, "PROBLEMS_EVERY_S", 0.05)
    console = Console(file=io.StringIO(), width=200)
    assert isinstance(console.file, io.StringIO)
    served: asyncio.Future[Addresses] = asyncio.get_running_loop().create_future()
    coordinator = asyncio.create_task(serve(CoordinatorConfig(), on_serving=served.set_result))
    address = (await asyncio.wait_for(served, 10)).grpc
    telling = asyncio.create_task(watch.tell_problems(address, console, None))
    troubled = replace(IDLE, problem=PROBLEM)
    async with LeaseHolder(address, opening=(hello("w0"), troubled)) as worker, asyncio.timeout(20):
        while PROBLEM not in console.file.getvalue():  # noqa: ASYNC110 - read from a real coordinator
            await asyncio.sleep(0.05)
        await worker.say(replace(troubled, running=1))
        await asyncio.sleep(0.3)
        coordinator.cancel()  # before the worker leaves, which would be a second problem
        await asyncio.wait({coordinator})
    await asyncio.sleep(0.3)
    assert not telling.done()
    telling.cancel()
    assert console.file.getvalue() == f"w0: {PROBLEM}\n"
