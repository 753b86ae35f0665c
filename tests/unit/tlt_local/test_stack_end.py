"""The end of a stack whose block ends by itself."""

import asyncio
from pathlib import Path

import countdown
from tlt_local.config import StackConfig
from tlt_local.home import Home
from tlt_local.processes import Supervised
from tlt_local.stack import Stack

MODEL = Path(countdown.__file__).with_name("checkpoint")


class WithoutServices(Stack):
    async def _start(self, home: Home, owners: asyncio.TaskGroup, running: list[Supervised]) -> None:
        self.home = home.directory


async def test_a_block_that_ends_ends_all_tasks_of_the_stack_and_removes_its_files() -> None:
    async with asyncio.timeout(60):
        async with WithoutServices(StackConfig(model=MODEL)) as stack:
            assert exists(stack.home)
        assert not exists(stack.home)


def exists(path: Path) -> bool:
    return path.exists()
