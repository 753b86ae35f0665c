"""The gateway's journal. Every method returns immediately, and does nothing if no directory is configured."""

import asyncio
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Never

from tlt_common.domain.fleet import WorkerInfo
from tlt_common.domain.ids import PolicyVersion, WorkerId
from tlt_common.journal.gateway_lines import (
    EngineLine,
    PauseLine,
    RequestOutcome,
    ResponseLine,
    StayEnd,
    UpdateLine,
    WorkerStay,
)
from tlt_common.journal.line import Line
from tlt_common.journal.writer import JournalWriter
from tlt_common.telemetry.optional import optional
from tlt_gateway.journal.groups import group_key, group_name
from tlt_gateway.journal.tally import RoundsTally
from tlt_gateway.requests.request_metrics import RequestMetrics
from tlt_gateway.requests.running_request import RequestStay, RunningRequest
from tlt_gateway.workers.pooled_worker import PooledWorker

LOOK_S = 0.25
"""Seconds between two looks at what workers report: about every half second."""
SUM_S = 60.0
"""Seconds of rounds that are added up."""


class GatewayJournal:
    """
    Args:
        directory: Directory of the journal. None disables it.
        gateway_id: Id of the gateway.
        max_bytes: Maximum total size of its files.
        workers: Returns the workers.
    """

    def __init__(
        self,
        directory: Path | None,
        gateway_id: str,
        *,
        max_bytes: int,
        workers: Callable[[], Iterable[PooledWorker]] = tuple,
    ) -> None:
        began_s = time.time()
        self._offset_s = began_s - asyncio.get_running_loop().time()
        self._workers = workers
        self._writer: JournalWriter | None = None
        self._key: bytes | None = None
        """None until the journal's thread has read it."""
        self._engines: dict[WorkerId, tuple[object, ...]] = {}
        self._tally = RoundsTally()
        if directory is not None:
            self._writer = JournalWriter(
                directory,
                service="gateway",
                service_id=gateway_id,
                began_s=began_s,
                max_bytes=max_bytes,
                prepare=self._load_key,
            )

    async def run(self) -> Never:
        """Write entries until cancelled, then write the remaining ones."""
        if self._writer is None:
            await asyncio.Event().wait()
            raise AssertionError("nobody sets it")
        with self._writer:
            due_s = self._now_s() + SUM_S
            try:
                while True:
                    await asyncio.sleep(LOOK_S)
                    with optional("journal"):
                        self._look()
                        if self._now_s() >= due_s:
                            due_s += SUM_S
                            self._put(*self._tally.lines(self._now_s()))
            finally:
                with optional("journal"):
                    self._look()
                    self._put(*self._tally.lines(self._now_s()))

    def _load_key(self, directory: Path) -> None:
        self._key = group_key(directory)

    def response(self, request: RunningRequest, measured: RequestMetrics, outcome: str) -> None:
        """Record a finished request."""
        if self._writer is None:
            return
        if self._key is None:
            self._writer.drop()
            return
        transcript = request.transcript
        prompt, stats = transcript.prompt, transcript.stats
        self._put(
            ResponseLine(
                at=self._now_s(),
                number=request.ref,
                group=group_name(self._key, prompt.owner, request.prompt_hash, len(prompt.token_ids)),
                outcome=RequestOutcome(outcome),
                finish=transcript.finish_reason,
                prompt=len(prompt.token_ids),
                prefix=len(prompt.prefix_token_ids),
                tokens=transcript.generated,
                cap=prompt.sampling.max_new_tokens or transcript.generated,
                cached=stats.cached_tokens if stats else None,
                arrived=self._offset_s + measured.began_s,
                first=None if measured.first_s is None else self._offset_s + measured.first_s,
                rounds=stats.rounds if stats else None,
                accepted=stats.accepted_draft_tokens if stats else None,
                drafted=max(stats.proposed_draft_tokens, stats.accepted_draft_tokens) if stats else None,
                versions=tuple(sorted(measured.versions)),
                stays=tuple(self._stay(stay, request, outcome) for stay in request.stays),
            )
        )

    def update(self, version: PolicyVersion, began_s: float, workers: int | None) -> None:
        """Record a weight update, begun at a loop time; `workers` is None if it failed."""
        done = workers is not None
        self._put(
            UpdateLine(
                at=self._now_s(), version=version, began=self._offset_s + began_s, done=done, workers=workers or 0
            )
        )

    def pause(self, paused: bool) -> None:
        """Record that a pause of generation began or ended."""
        self._put(PauseLine(at=self._now_s(), paused=paused))

    def _look(self) -> None:
        for worker in self._workers():
            if (info := worker.info) is not None:
                self._tally.add(info, worker.rounds)
                if self._engines.get(info.worker_id) != (engine := _engine(info)):
                    self._engines[info.worker_id] = engine
                    self._put(self._engine_line(info))

    def _engine_line(self, info: WorkerInfo) -> EngineLine:
        return EngineLine(
            at=self._now_s(),
            worker=info.worker_id,
            device=info.device,
            slots=info.max_running,
            context=info.context_length,
            kv_room=info.kv_tokens,
        )

    def _stay(self, stay: RequestStay, request: RunningRequest, outcome: str) -> WorkerStay:
        is_last = stay is request.stays[-1]
        if stay.is_moved:
            end = StayEnd.MOVED
        else:
            end = StayEnd.OVER if is_last and outcome != RequestOutcome.FAILED else StayEnd.LOST
        return WorkerStay(
            worker=stay.worker_id,
            began=self._offset_s + stay.began_s,
            ended=self._offset_s + stay.ended_s,
            tokens=stay.tokens,
            drafter=stay.drafter,
            end=end,
        )

    def _now_s(self) -> float:
        return self._offset_s + asyncio.get_running_loop().time()

    def _put(self, *lines: Line) -> None:
        if self._writer is not None:
            for line in lines:
                self._writer.put(line)


def _engine(info: WorkerInfo) -> tuple[object, ...]:
    return info.device, info.max_running, info.context_length, info.kv_tokens
