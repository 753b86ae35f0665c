"""The API, version 1: the fleet, its workers, steps, lengths and drafters."""

from collections import Counter
from collections.abc import Mapping
from functools import partial
from math import isfinite
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from fastapi.responses import Response
from pydantic import BaseModel

from tlt_common.domain.fleet import WorkerState
from tlt_common.domain.ids import WorkerId
from tlt_common.errors import InvalidRequestError
from tlt_coordinator.http.answers import (
    DrafterAnswer,
    DraftersAnswer,
    FinishedBucket,
    FleetAnswer,
    LengthsAnswer,
    RunningBucket,
    StepAnswer,
    StepsAnswer,
    WorkerAnswer,
    WorkerRow,
    WorkersAnswer,
    fleet_of,
    row_of,
)
from tlt_coordinator.http.query import NoQuery, SpanQuery, WorkersQuery, documented, reading
from tlt_coordinator.http.spans import span_of
from tlt_coordinator.lending.decision import Standing
from tlt_coordinator.lengths import counted
from tlt_coordinator.observer import ObservedWorker, Observer

SCANNED_AT_ONCE = 1024
"""Workers that are looked at in one piece."""
ROWS_AT_ONCE = 128
"""Rows that are made in one piece: a millisecond."""
LOADS_AT_ONCE = 256
"""Loads of workers that are added up in one piece."""
_SENTENCES: Mapping[str, str] = {
    Standing.DOWN: "It is unreachable.",
    Standing.EXCLUDED: "An operator excluded it from lending.",
    Standing.LENDING_OFF: "Lending is off for the whole fleet.",
    Standing.ROLLOUT: "Requests run on it, and rollouts come first.",
    Standing.UPDATING: "It loads weights of the policy.",
    Standing.LENT: "It holds a lease: its devices train the drafter.",
    Standing.SWITCHING: "Its devices are being returned, or it has not answered its lease yet.",
    Standing.NO_TRAINER: "It has no spot trainer, or its trainer does not answer.",
    Standing.RESTING: "Its trainer has nothing to learn, and wants no lease.",
    Standing.QUEUE: "Requests wait at a gateway, so no worker is lent.",
    Standing.SETTLING: "It has not been idle for long, or is not expected to be for as long as a lease would cost.",
    Standing.ENOUGH: "As many workers train as pay, or as spot.max_trainers allows.",
    Standing.OFFERED: "It is about to be lent.",
}
"""Why a worker is or is not lent."""


def answered(answer: BaseModel) -> Response:
    """Return an answer as JSON without FastAPI's additional validation, which runs in Python."""
    return Response(answer.model_dump_json(), media_type="application/json")


def router_of(observer: Observer) -> APIRouter:
    """Return the routes."""
    router = APIRouter()
    nothing = Depends(reading(NoQuery))

    @router.get("/fleet", response_model=FleetAnswer, dependencies=[nothing])
    async def fleet() -> Response:
        return answered(fleet_of(observer.fleet()))

    @router.get("/workers", response_model=WorkersAnswer, openapi_extra=documented(WorkersQuery))
    async def workers(query: Annotated[WorkersQuery, Depends(reading(WorkersQuery))]) -> Response:
        state = _state_of(query.state)
        ids = await _matching(observer, query, state)
        shown, rows = ids[: query.count], list[WorkerRow]()
        for first in range(0, len(shown), ROWS_AT_ONCE):
            part = shown[first : first + ROWS_AT_ONCE]
            rows += await observer.pieces.do(lambda part=part: [row_of(worker) for worker in observer.workers(part)])  # type: ignore[misc]
        following = shown[-1] if len(ids) > query.count else None
        return await observer.pieces.do(lambda: answered(WorkersAnswer.model_construct(workers=rows, next=following)))

    @router.get("/workers/{worker_id:path}", response_model=WorkerAnswer, dependencies=[nothing])
    async def worker(worker_id: str) -> Response:
        return answered(_worker(observer, WorkerId(worker_id)))

    @router.get("/steps", response_model=StepsAnswer, openapi_extra=documented(SpanQuery))
    async def steps(query: Annotated[SpanQuery, Depends(reading(SpanQuery))]) -> Response:
        found = observer.steps(*span_of(query, observer))
        return answered(
            StepsAnswer(
                steps=[
                    StepAnswer(
                        number=step.number,
                        policy_version=step.policy_version,
                        began_unix_s=step.began_s,
                        ended_unix_s=step.ended_s,
                        updated_unix_s=step.updated_s,
                        requests=step.requests,
                        tokens=step.tokens,
                        announced=step.announced,
                        source=step.source,
                    )
                    for step in found
                ]
            )
        )

    @router.get("/lengths", response_model=LengthsAnswer, dependencies=[nothing])
    async def lengths() -> Response:
        loads, running = observer.lengths.loads(observer.now()), Counter[tuple[int, int]]()
        for first in range(0, len(loads), LOADS_AT_ONCE):
            running += await observer.pieces.do(partial(counted, loads[first : first + LOADS_AT_ONCE]))
        return answered(
            LengthsAnswer(
                running=[
                    RunningBucket(cap=cap, count=count, **_tokens(bits))
                    for (cap, bits), count in sorted(running.items())
                ],
                finished=[
                    FinishedBucket(count=lengths.count, cut=lengths.cut, **_tokens(lengths.bits))
                    for lengths in observer.lengths.finished
                ],
            )
        )

    @router.get("/drafters", response_model=DraftersAnswer, dependencies=[nothing])
    async def drafters() -> Response:
        records = observer.drafters
        return answered(
            DraftersAnswer(
                newest=records[-1].version if records else 0,
                drafters=[
                    DrafterAnswer(
                        version=record.version,
                        worker_id=record.worker_id,
                        at_unix_s=record.at_unix_s,
                        held_out_top1=record.held_out_top1,
                        policy_version=record.policy_version,
                        workers=observer.loaded(record.version),
                    )
                    for record in records
                ],
            )
        )

    return router


async def _matching(observer: Observer, query: WorkersQuery, state: WorkerState | None) -> list[WorkerId]:
    """Return the workers that match a query, and one more if there are more."""
    found, after = list[WorkerId](), query.after
    while len(found) <= query.count:
        ids = await observer.pieces.do(lambda after=after: observer.ids_after(after, SCANNED_AT_ONCE))  # type: ignore[misc]
        if not ids:
            break
        found += [worker_id for worker_id in ids if state is None or observer.state(worker_id) is state]
        after = ids[-1]
    return found[: query.count + 1]


def _worker(observer: Observer, worker_id: WorkerId) -> WorkerAnswer:
    worker, seconds = observer.worker(worker_id)
    hello, status = worker.member.hello, worker.member.status
    return WorkerAnswer(
        **row_of(worker).model_dump(),
        address=hello.address,
        model=hello.model,
        device=hello.device,
        pod=hello.pod,
        training_devices=hello.training_devices,
        max_running=hello.max_running,
        produced_tokens=status.produced_tokens,
        training_steps=status.training_steps,
        training_loss=status.training_loss if isfinite(status.training_loss) else None,
        training_s=status.training_s,
        seconds=dict(seconds),
        reasons=reasons_of(worker),
    )


def _state_of(name: str | None) -> WorkerState | None:
    """
    Raises:
        InvalidRequestError: The state is unknown.
    """
    if name is None or name in set(WorkerState):
        return WorkerState(name) if name else None
    raise InvalidRequestError(f"state is {name!r:.40}; accepted: {', '.join(WorkerState)}", field="state")


def _tokens(bits: int) -> dict[str, Any]:
    """Return the range of token counts with this many bits."""
    return {"from_tokens": 1 << bits >> 1, "to_tokens": (1 << bits) - 1}


def reasons_of(worker: ObservedWorker) -> list[str]:
    """Return the reasons, the decisive one first."""
    found = _SENTENCES.get(worker.standing) or f"{worker.standing[:1].upper()}{worker.standing[1:]}."
    problem = worker.member.status.problem
    return [found, problem] if problem else [found]
