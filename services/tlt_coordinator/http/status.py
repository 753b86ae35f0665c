"""GET /status: the fleet in one document, for scripts. Written piece by piece."""

import json
from collections.abc import AsyncGenerator
from dataclasses import asdict
from functools import partial
from math import isfinite
from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import JsonValue

from tlt_common.domain.fleet import WorkerAccount
from tlt_coordinator.http.query import StatusQuery, reading
from tlt_coordinator.http.streamed import StreamedAnswer
from tlt_coordinator.observer import Observer

WORKERS_AT_ONCE = 32
"""Workers that are encoded in one piece, and fewer if they have changes: a millisecond or two."""
CHANGES_AT_ONCE = 2048


def router_of(observer: Observer) -> APIRouter:
    """Return the route."""
    router = APIRouter()

    @router.get("/status")
    async def status(query: Annotated[StatusQuery, Depends(reading(StatusQuery))]) -> StreamedAnswer:
        changes = observer.changes_shown(query.max_changes)  # raises before anything is sent
        return StreamedAnswer(written(observer, changes), "application/json")

    return router


async def written(observer: Observer, max_changes: int) -> AsyncGenerator[bytes, None]:
    """Yield what GetFleet returns, plus the mean accept length of the workers that decode, as one JSON document."""
    head = json.dumps(_summary(observer), separators=(",", ":"))
    yield head[:-1].encode() + b',"workers":['
    at_once, first = max(1, min(WORKERS_AT_ONCE, CHANGES_AT_ONCE // (max_changes + 1))), True
    async for accounts in observer.accounts(max_changes):
        for place in range(0, len(accounts), at_once):
            part = await observer.pieces.do(partial(_encoded, accounts[place : place + at_once]))
            yield part if first else b"," + part
            first = False
    yield b"]}"


def _summary(observer: Observer) -> dict[str, JsonValue]:
    fleet = observer.summary()
    return {
        "queued": fleet.queued,
        "lending": fleet.lending,
        "drafter": asdict(fleet.drafter) if fleet.drafter else None,
        "drafters": [asdict(record) for record in fleet.drafters],
        "accept_length": observer.fleet().accept_length,
        "bubble_utilisation": fleet.bubble_utilisation,
        "paused": fleet.pause_left_s > 0,
        "pause_left_s": fleet.pause_left_s if isfinite(fleet.pause_left_s) else None,
    }


def _encoded(accounts: list[WorkerAccount]) -> bytes:
    """Return workers as elements of a JSON array."""
    return json.dumps([_worker_json(account) for account in accounts], separators=(",", ":"))[1:-1].encode()


def _worker_json(account: WorkerAccount) -> dict[str, JsonValue]:
    status = account.status
    hello = asdict(account.hello)
    del hello["history"]
    return {
        **hello,
        **asdict(status),
        "state": status.state.value,
        "training_loss": status.training_loss if isfinite(status.training_loss) else None,
        "standing": account.standing,
        "seconds": {state.value: seconds for state, seconds in account.seconds.items()},
        "timeline": [{"state": change.state.value, "at_unix_s": change.at_unix_s} for change in account.timeline],
    }
