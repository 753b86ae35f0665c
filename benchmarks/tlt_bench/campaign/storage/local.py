"""A suite on this machine's disks and an embedded Redis, both of which fail."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from tlt_bench.campaign.part import Context
from tlt_bench.campaign.storage.disk import SmallDisk, mounted, why_not
from tlt_bench.campaign.storage.faults import local_faults
from tlt_bench.campaign.storage.redis import RedisControl
from tlt_bench.campaign.suite.faults import Fault
from tlt_bench.campaign.suite.suite import Suite, running
from tlt_cache.config import REDIS_SOCKET
from tlt_local.supervision.home import WEIGHTS

DISKS = ("drafters", "checkpoints")
"""Directories of a run that get a small disk; so does the directory of its streamed weights."""
DISK_BYTES = 64 * 2**20


@asynccontextmanager
async def local_storage(context: Context) -> AsyncIterator[tuple[Suite, Mapping[str, Fault]]]:
    """Run the suite, on small disks where they can be mounted; yield it with its faults."""
    directory, disks = context.directory / "run", list[SmallDisk]()
    if reason := why_not():
        context.say(reason)
    async with AsyncExitStack() as parts:

        async def mount(path: Path) -> None:
            if not reason:
                disks.append(await parts.enter_async_context(mounted(path, size_bytes=DISK_BYTES)))

        for name in DISKS:
            await mount(directory / name)
        suite = await parts.enter_async_context(running(directory, seed=context.seed))
        await mount(suite.directory / WEIGHTS)  # empty until the first update
        yield suite, local_faults(RedisControl(socket=suite.directory / REDIS_SOCKET), disks)
