"""GET /status and GET /healthz."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from math import isfinite
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from pydantic import JsonValue

from tlt_common.domain.fleet import Fleet, WorkerAccount, WorkerState
from tlt_common.errors import InvalidRequestError
from tlt_common.rpc.http.calls import CountedCalls
from tlt_common.rpc.http.failures import answer_errors
from tlt_common.rpc.security.access import Access, Caller
from tlt_common.rpc.security.bearer import Bearer
from tlt_common.rpc.security.tokens import Scope, tokens_in

PAGE = "StatusPage"


def app(fleet: Callable[[int | None], Awaitable[Fleet]], access: Access | None = None) -> FastAPI:
    """
    Return the application.

    Args:
        fleet: Returns the current state of the fleet, with at most so many changes of each worker; raises
            UnavailableError when another replica leads, and InvalidRequestError for too large a number.
        access: Access control; None: everybody has access.
    """
    api = FastAPI(title="TLT coordinator", docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    api.add_middleware(CountedCalls, service=PAGE)
    answer_errors(api, listed_in="docs/kubernetes.md")

    @api.get("/status")
    async def status(request: Request) -> Response:
        if access is not None:
            _admit(access, request)
        found = await fleet(_max_changes(request))
        # In a thread, between whose steps the event loop runs: a fleet may have thousands of workers.
        return await asyncio.to_thread(lambda: JSONResponse(fleet_json(found)))

    @api.get("/healthz")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    return api


def _max_changes(request: Request) -> int | None:
    """
    Raises:
        InvalidRequestError: A parameter is unknown or repeated, or is not a number.
    """
    given = request.query_params.multi_items()
    if not given:
        return None
    (name, value) = given[0]
    if name != "max_changes" or len(given) > 1:
        raise InvalidRequestError("the query has unknown or repeated parameters; accepted: max_changes", field="query")
    if not (value.isascii() and value.isdecimal() and len(value) < 10):
        raise InvalidRequestError(f"max_changes is {value!r:.40}; accepted: a number", field="max_changes")
    return int(value)


def _admit(access: Access, request: Request) -> None:
    """
    Check the token of the request.

    Raises:
        UnauthenticatedError: The token is missing or invalid.
        PermissionDeniedError: It does not allow access.
    """
    caller = Caller(
        service=PAGE,
        method="status",
        peer=request.client.host if request.client else "",
        authorization=request.headers.get("authorization", ""),
    )
    access.identify(caller)
    access.permit(caller, None)


def access_of(tokens: Path | None) -> Access | None:
    """
    Return the access control of the page: a token of scope admin; None, without a token file: everybody has access.

    Raises:
        ConfigError: The token file cannot be used.
    """
    return Bearer(tokens_in(tokens), lambda _method, _request: (Scope.ADMIN,)) if tokens else None


def fleet_json(fleet: Fleet) -> dict[str, JsonValue]:
    """Return what GetFleet returns, plus the mean accept length of the workers that decode."""
    return {
        "workers": [_worker_json(account) for account in fleet.workers],
        "queued": fleet.queued,
        "lending": fleet.lending,
        "drafter": asdict(fleet.drafter) if fleet.drafter else None,
        "drafters": [asdict(record) for record in fleet.drafters],
        "accept_length": accept_length(fleet),
        "bubble_utilisation": fleet.bubble_utilisation,
        "paused": fleet.pause_left_s > 0,
        "pause_left_s": fleet.pause_left_s if isfinite(fleet.pause_left_s) else None,
    }


def accept_length(fleet: Fleet) -> float | None:
    """Return the mean over the workers that decode now, in tokens per verification round; None: no worker decodes."""
    lengths = [
        account.status.accept_length
        for account in fleet.workers
        if account.status.state is WorkerState.ROLLOUT and account.status.accept_length > 0
    ]
    return sum(lengths) / len(lengths) if lengths else None


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
