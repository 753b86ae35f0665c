"""A suite on an object store that fails, and by a wall clock that is set."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from countdown.settings import DRAFTER
from tlt_bench.campaign.part import Context
from tlt_bench.campaign.storage import object_store
from tlt_bench.campaign.storage.clocks import ShiftedClock, clock_at, why_not
from tlt_bench.campaign.storage.faults import Fault, remote_faults
from tlt_bench.campaign.storage.object_store import FailingCalls
from tlt_bench.campaign.suite.stored import stored
from tlt_bench.campaign.suite.suite import MODEL, Store, Suite, running
from tlt_worker.engine.launch import environment


@dataclass(slots=True)
class RemoteStorage:
    """An S3 under drafters, checkpoints and weights; and the wall clock, if libfaketime is installed."""

    context: Context
    _calls: FailingCalls | None = None
    _clock: ShiftedClock | None = None

    @asynccontextmanager
    async def suite(self) -> AsyncIterator[Suite]:
        """Run the suite, which finds the store by the environment, as clients of S3 do."""
        self._clock = await asyncio.to_thread(clock_at, self.context.directory / "clock")
        if reason := why_not():
            self.context.say(reason)
        async with AsyncExitStack() as parts:
            self._calls, endpoint = parts.enter_context(object_store.serving())
            parts.enter_context(environment(object_store.environment(endpoint)))
            store = await asyncio.to_thread(_filled, self._calls.bucket)
            if self._clock:
                parts.enter_context(environment(self._clock.environment))
            directory = self.context.directory / "run"
            yield await parts.enter_async_context(running(directory, seed=self.context.seed, store=store))

    def faults(self, _: Suite) -> Mapping[str, Fault]:
        """Return the faults by name."""
        assert self._calls is not None  # noqa: S101 - the suite runs
        return remote_faults(self._calls, self._clock)


def _filled(bucket: str) -> Store:
    """Create a bucket with the first drafter and the served weights; return what it holds."""
    url = object_store.create_bucket(bucket)
    return Store(url=url, drafter=stored(DRAFTER, url, "first"), weights=stored(MODEL, url, "weights"))
