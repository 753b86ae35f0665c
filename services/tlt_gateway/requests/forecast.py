"""What this gateway knows of lengths and paces: what it tells the coordinator, and what moves are decided by."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from tlt_common.domain.fleet import WorkerInfo
from tlt_common.domain.ids import WorkerId
from tlt_common.domain.response import FinishReason
from tlt_common.forecast import CostCurve, Forecaster, Running, TailRequest, TailWorker, TokenPace
from tlt_common.forecast.load import GatewayLoad, MovedRequest, TailReport, WorkerLoad, by_cap
from tlt_gateway.requests.requests import Requests
from tlt_gateway.requests.running_request import RequestStage, RunningRequest
from tlt_gateway.workers.pooled_worker import PooledState, PooledWorker

LOOK_S = 0.5
"""Seconds between two looks at what runs."""
REQUESTS_PER_S = 2000
"""Requests looked at per second: with more, looks are rarer."""

MAX_UNTOLD = 2**16
"""Lengths of finished responses that are kept until the next report; of more, the latest."""

AT_ONCE = 16
"""Forecasts made before other tasks run."""
ROWS_AT_ONCE = 256
"""Requests looked at before other tasks run."""


class _Row(NamedTuple):
    """A request at a worker."""

    ref: int
    worker_id: WorkerId
    kv_tokens: int
    of: Running


class RequestForecast:
    """
    Args:
        gateway_id: Of this gateway.
        requests: Returns its requests.
        workers: Returns its workers.
        at_most: Requests that a worker runs at most after others have moved to it.
    """

    def __init__(
        self,
        gateway_id: str,
        requests: Callable[[], Requests],
        workers: Callable[[], Iterable[PooledWorker]],
        *,
        at_most: int,
    ) -> None:
        self._gateway_id = gateway_id
        self._requests = requests
        self._workers = workers
        self._at_most = at_most
        self._forecaster = Forecaster()
        self.curves: dict[str, CostCurve] = {}
        """What rounds cost, by device."""
        self._serials: dict[WorkerId, int] = {}
        self._drafters: dict[str, int] = {}
        self._ended = deque[int](maxlen=MAX_UNTOLD)
        self._cut = deque[int](maxlen=MAX_UNTOLD)
        self._moved: list[tuple[float, MovedRequest]] = []
        self._load = GatewayLoad()
        self._due_s = 0.0

    def over(self, request: RunningRequest) -> None:
        """Learn from a request that is over."""
        ended = request.transcript.finish_reason is FinishReason.STOP
        begun = len(request.transcript.prompt.prefix_token_ids)
        if (of := running(request)).generated > begun:
            self._forecaster.finished(of, ended=ended, begun=begun)
            (self._ended if ended else self._cut).append(of.generated)

    def moved(self, request: TailRequest, to: WorkerId) -> None:
        """Note a request that moves in a tail, to be reported."""
        one = MovedRequest(from_id=request.worker_id, to_id=to, kv_tokens=request.kv_tokens, age_s=0.0)
        self._moved.append((asyncio.get_running_loop().time(), one))

    def learn(self) -> None:
        """Learn from the rounds that workers have reported."""
        for worker in self._workers():
            info, rounds = worker.info, worker.rounds
            if info is None or rounds.serial == self._serials.get(info.worker_id, 0):
                continue
            self._serials[info.worker_id] = rounds.serial
            curve = self.curves.setdefault(info.device, CostCurve())
            if info.drafter_version > self._drafters.setdefault(info.device, info.drafter_version):
                self._drafters[info.device] = info.drafter_version
                curve.forget_drafts()
            curve.learn(rounds)

    async def load(self) -> GatewayLoad:
        """Return what to report. The lengths are reported once."""
        now_s = asyncio.get_running_loop().time()
        ended, cut = tuple(self._ended), tuple(self._cut)
        self._ended.clear()
        self._cut.clear()
        moved = tuple(replace(one, age_s=now_s - at_s) for at_s, one in self._moved)
        self._moved.clear()
        if now_s < self._due_s:
            return GatewayLoad(workers=self._load.workers, ended=ended, cut=cut, moved=moved)
        at_workers = [one for one in self._requests().all if one.worker is not None and one.occupies]
        self._due_s = now_s + max(LOOK_S / 2.0, len(at_workers) / REQUESTS_PER_S)
        rows = await _rows(at_workers)
        self._forecaster.look([row.of for row in rows])
        self._load = GatewayLoad(workers=_loads(rows), ended=ended, cut=cut, moved=moved, tail=await self._tail(rows))
        return self._load

    async def _tail(self, rows: Sequence[_Row]) -> TailReport | None:
        """Return the requests as the tail; None unless they are few, and all that is needed is known."""
        ready = {
            worker.info.worker_id: worker.info
            for worker in self._workers()
            if worker.info is not None and worker.state is PooledState.READY
        }
        stages = {one.stage for one in self._requests().all}
        is_settled = stages <= {RequestStage.RUNNING}
        if not rows:
            return TailReport(is_settled=is_settled, workers=(), requests=())
        if len(rows) > self._at_most * len(ready) or not self._forecaster.ready:
            return None
        paces = self._paces(ready.values())
        if any(info.device not in paces or not info.kv_room for info in ready.values()):
            return None
        requests = list[TailRequest]()
        lefts = self._forecaster.lefts([row.of for row in rows])
        for row, left in zip(rows, lefts, strict=True):
            requests.append(
                TailRequest(
                    gateway_id=self._gateway_id,
                    ref=row.ref,
                    worker_id=row.worker_id,
                    kv_tokens=row.kv_tokens,
                    left=left,
                )
            )
            if len(requests) % AT_ONCE == 0:
                await asyncio.sleep(0)
        workers = tuple(_tail_worker(info, paces[info.device]) for info in ready.values())
        return TailReport(is_settled=is_settled, workers=workers, requests=tuple(requests))

    def _paces(self, infos: Iterable[WorkerInfo]) -> dict[str, TokenPace]:
        devices = {info.device for info in infos} & self.curves.keys()
        return {device: pace for device in devices if (pace := self.curves[device].pace(self._at_most))}


def running(request: RunningRequest) -> Running:
    """Return a request as the forecaster knows it."""
    transcript = request.transcript
    cap = transcript.prompt.sampling.max_new_tokens or transcript.generated
    return Running(prompt=request.group, generated=transcript.generated, cap=cap)


def kv_tokens(request: RunningRequest) -> int:
    """Return the tokens of a request's prompt and response."""
    return len(request.transcript.prompt.token_ids) + request.transcript.generated


def worker_id(request: RunningRequest) -> WorkerId:
    """Return the id of the worker that runs a request; empty if none does."""
    worker = request.worker
    return worker.info.worker_id if worker is not None and worker.info is not None else WorkerId("")


async def _rows(requests: Iterable[RunningRequest]) -> list[_Row]:
    """Return requests as they are, without those that have left their worker since."""
    rows = list[_Row]()
    for place, one in enumerate(requests, 1):
        if name := worker_id(one):
            rows.append(_Row(one.ref, name, kv_tokens(one), running(one)))
        if place % ROWS_AT_ONCE == 0:
            await asyncio.sleep(0)
    return rows


def _loads(rows: Iterable[_Row]) -> tuple[WorkerLoad, ...]:
    found: dict[WorkerId, list[_Row]] = {}
    for row in rows:
        found.setdefault(row.worker_id, []).append(row)
    return tuple(
        WorkerLoad(
            worker_id=name,
            running=by_cap((row.of.cap, row.of.generated) for row in ones),
            kv_tokens=sum(row.kv_tokens for row in ones),
        )
        for name, ones in found.items()
    )


def _tail_worker(info: WorkerInfo, pace: TokenPace) -> TailWorker:
    return TailWorker(
        worker_id=info.worker_id,
        pace=pace,
        slots=info.max_running,
        kv_room=info.kv_room,
        lendable=info.lendable,
        training=info.training,
    )
