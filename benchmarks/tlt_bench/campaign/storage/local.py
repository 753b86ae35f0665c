"""A suite on this machine's disks and an embedded Redis, both of which fail."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tlt_bench.campaign.part import Context
from tlt_bench.campaign.storage.disk import SmallDisk, mounted, why_not
from tlt_bench.campaign.storage.faults import Fault, local_faults
from tlt_bench.campaign.storage.redis import RedisControl
from tlt_bench.campaign.suite.suite import Suite, running
from tlt_local.supervision.home import WEIGHTS

DISKS = ("drafters", "checkpoints")
"""Directories of a run that get a small disk; so does the directory of its streamed weights."""
DISK_BYTES = 64 * 2**20


@dataclass(slots=True)
class LocalStorage:
    """Redis, and small disks where they can be mounted."""

    context: Context
    _disks: list[SmallDisk] = field(default_factory=list)

    @asynccontextmanager
    async def suite(self) -> AsyncIterator[Suite]:
        """Run the suite."""
        directory = self.context.directory / "run"
        async with AsyncExitStack() as parts:
            if reason := why_not():
                self.context.say(reason)
                yield await parts.enter_async_context(running(directory, seed=self.context.seed))
                return
            for name in DISKS:
                await self._mount(parts, directory / name)
            suite = await parts.enter_async_context(running(directory, seed=self.context.seed))
            await self._mount(parts, suite.directory / WEIGHTS)  # empty until the first update
            yield suite

    async def _mount(self, parts: AsyncExitStack, path: Path) -> None:
        self._disks.append(await parts.enter_async_context(mounted(path, size_bytes=DISK_BYTES)))

    def faults(self, suite: Suite) -> Mapping[str, Fault]:
        """Return the faults by name."""
        return local_faults(RedisControl(socket=suite.directory / "redis.sock"), self._disks)
