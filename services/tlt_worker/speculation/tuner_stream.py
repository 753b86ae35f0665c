"""The exchange with the tuner: sends this engine's windows, receives the fleet's posterior."""

import asyncio
from collections import defaultdict
from typing import Never

import grpc

from tlt_common.bandit.windows import merged
from tlt_common.config.base import TlsSettings
from tlt_common.domain.arm import ArmWindow
from tlt_common.domain.ids import DrafterVersion, WorkerId
from tlt_common.domain.tuner import PoolKey, RoundReport
from tlt_common.errors import TltError
from tlt_common.rpc.channel import connect
from tlt_common.rpc.errors import translated
from tlt_common.rpc.follow import follow
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger
from tlt_common.wire import tuner as wire
from tlt_worker.engine.base import Engine, EngineInfo

log = get_logger(__name__)

REPORT_EVERY_S = 2.0
REPORT_S = 5.0


class TunerStream:
    """Sends windows to the tuner and merges its posterior. Without a tuner, the engine's own bandit continues."""

    def __init__(
        self,
        engine: Engine,
        info: EngineInfo,
        tuner: str,
        *,
        worker_id: WorkerId,
        fleet: str = "default",
        tls: TlsSettings | None = None,
    ) -> None:
        self._engine = engine
        self._info = info
        self._tuner = tuner
        self._tls = tls
        self._worker_id = worker_id
        self._fleet = fleet
        self._windows: dict[DrafterVersion, list[ArmWindow]] = defaultdict(list)

    def add(self, report: RoundReport) -> None:
        """Keep a report until the next transmission."""
        self._windows[report.drafter_version].extend(report.arms)

    async def run(self) -> Never:
        """Run until cancelled."""
        async with connect(self._tuner, to="tuner", tls=self._tls) as channel, asyncio.TaskGroup() as parts:
            stub = wire.Stub(channel)
            parts.create_task(self._send(channel), name="reporting-send")
            request = wire.pb.WatchPosteriorRequest(key=self._key(DrafterVersion(0)))
            parts.create_task(
                follow("tuner", lambda: stub.WatchPosterior(request), self._learn), name="reporting-learn"
            )
        raise AssertionError("reporting parts never return")

    async def _send(self, channel: grpc.aio.Channel) -> Never:
        stub = wire.Stub(channel)
        while True:
            await asyncio.sleep(REPORT_EVERY_S)
            windows, self._windows = self._windows, defaultdict(list)
            for version, arms in windows.items():
                request = wire.pb.ReportWindowRequest(
                    worker_id=self._worker_id,
                    key=self._key(version),
                    arms=[wire.window_to_pb(window) for window in merged(arms)],
                )
                try:
                    with translated():
                        await stub.ReportWindow(request, timeout=REPORT_S)
                except TltError as error:
                    metrics.WINDOWS_DROPPED.inc(len(request.arms))
                    log.debug("windows_lost", count=len(request.arms), error=error.message)

    def _learn(self, message: wire.pb.WatchPosteriorResponse) -> None:
        self._engine.set_posterior(wire.posterior_from_pb(message))

    def _key(self, version: DrafterVersion) -> wire.pb.PoolKey:
        info = self._info
        key = PoolKey(fleet=self._fleet, model=info.model, device=info.device, drafter_version=version)
        return wire.key_to_pb(key)
