"""A worker as a gateway knows it, without a connection."""

from types import SimpleNamespace
from typing import cast

from tlt_common.domain.fleet import WorkerInfo
from tlt_common.domain.ids import DrafterVersion, PolicyVersion, WorkerId
from tlt_gateway.workers.pooled_worker import PooledState, PooledWorker
from tlt_gateway.workers.remote_worker import RemoteWorker


def worker(version: int = 0, *, slots: int = 1) -> PooledWorker:
    """Return one that is ready and serves a version, with so many slots of this gateway."""
    one = PooledWorker("w:1", cast("RemoteWorker", SimpleNamespace(received=0)), gateway_id="g", queued=int)
    one.state, one.slots = PooledState.READY, slots
    one.info = WorkerInfo(
        worker_id=WorkerId("w"),
        model="m",
        vocab_size=100,
        context_length=1000,
        max_running=8,
        policy_version=PolicyVersion(version),
        drafter_version=DrafterVersion(0),
        running=0,
        device="d",
    )
    return one
