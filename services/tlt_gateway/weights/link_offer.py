"""Offers the file of a streamed release to workers on this machine."""

from tlt_common.domain.weights import Staged
from tlt_common.errors import WeightsUnreadableError
from tlt_common.machine import boot_id
from tlt_common.telemetry.log import get_logger
from tlt_gateway.weights.release import Release
from tlt_gateway.workers.pooled_worker import PooledWorker

log = get_logger(__name__)


async def staged_by_link(worker: PooledWorker, release: Release, *, joining: bool = False) -> Staged | None:
    """
    Let a worker stage a release by linking this gateway's file; return None if it has to receive the tensors instead.

    Raises:
        TltError: As for `RemoteWorker.stage`.
    """
    if worker.info is None or not worker.info.machine or worker.info.machine != boot_id():
        return None
    if (linked := await release.linked(joining=joining)) is None:
        return None
    try:
        return await worker.remote.stage(*linked)
    except WeightsUnreadableError as error:
        log.info("not_linked", worker=worker.name, reason=error.message)
        return None
