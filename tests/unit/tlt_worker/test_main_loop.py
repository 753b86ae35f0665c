"""The event loop of `tlt serve worker`."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import uvloop

from tlt_worker import main
from tlt_worker.config import WorkerConfig


@pytest.fixture
def policy() -> Iterator[None]:
    """Restore asyncio's policy afterwards."""
    before = asyncio.get_event_loop_policy()
    yield
    asyncio.set_event_loop_policy(before)


@pytest.mark.usefixtures("policy")
def test_a_worker_starts_its_trainer_although_sglang_has_replaced_the_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[int] = []

    async def start_a_child() -> None:
        asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())  # as importing SGLang does
        child = await asyncio.create_subprocess_exec("true")
        codes.append(await child.wait())

    def run_app(_: WorkerConfig, __: object, *, leave: Callable[[], Awaitable[object]] | None) -> None:
        assert leave is None
        asyncio.run(start_a_child())

    monkeypatch.setattr(main, "run_app", run_app)
    main.run(WorkerConfig(model=Path("/model")))
    assert codes == [0]
