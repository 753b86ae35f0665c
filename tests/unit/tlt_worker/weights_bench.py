"""Weights of a worker with a scripted engine."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.fakes.engine import FakeEngine
from tests.fakes.spools import spools_in
from tlt_common.changes import Changes
from tlt_common.domain.ids import PolicyVersion
from tlt_common.domain.weights import ReleaseId, StageOrder, TensorChunk
from tlt_common.rpc.channel import connect
from tlt_worker.activity import Activity
from tlt_worker.weights.served_weights import ServedWeights
from tlt_worker.weights.source import WeightSources
from tlt_worker.weights.staging import Staging

CHUNK = TensorChunk(name="lm_head", dtype="F32", shape=(2,), offset_bytes=0, data=bytes(8))


async def stream(*chunks: TensorChunk) -> AsyncIterator[TensorChunk]:
    for chunk in chunks:
        yield chunk


def release(version: int, key: str = "") -> ReleaseId:
    return ReleaseId(version=PolicyVersion(version), key=key)


@dataclass
class Bench:
    spool_dir: Path
    engine: FakeEngine = field(default_factory=FakeEngine)
    activity: Activity = field(default_factory=Activity)
    changes: Changes = field(default_factory=Changes)
    made_way: int = 0
    weights: ServedWeights = field(init=False)

    def __post_init__(self) -> None:
        staging = Staging(
            self.spool_dir,
            WeightSources(prefixes=("/", "memory://")),
            connect,
            check=self.engine.check_weights,
            model=Path("/model"),
        )
        self.weights = ServedWeights(
            self.engine, self.changes, self.activity, self._make_way, model=Path("/model"), staging=staging
        )

    def _make_way(self) -> None:
        self.made_way += 1

    async def stage(
        self, version: int, chunks: Iterable[TensorChunk] = (CHUNK,), uri: str | None = None, key: str = ""
    ) -> int:
        order = StageOrder(release=release(version, key), uri=uri)
        return (await self.weights.stage(order, stream(*chunks)))[0]

    async def commit(self, version: int, key: str = "") -> float:
        return await self.weights.commit(release(version, key))

    @property
    def spools(self) -> list[Path]:
        return spools_in(self.spool_dir)


@asynccontextmanager
async def running(spool_dir: Path) -> AsyncIterator[Bench]:
    """Run a bench within the context."""
    bench = Bench(spool_dir)
    await bench.engine.start()
    async with asyncio.TaskGroup() as parts:
        changes = parts.create_task(bench.changes.run())
        yield bench
        changes.cancel()
