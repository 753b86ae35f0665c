"""GET /status and GET /healthz."""

from collections.abc import Callable
from dataclasses import asdict
from math import isfinite
from pathlib import Path

from fastapi import FastAPI, HTTPException, Request
from pydantic import JsonValue

from tlt_common.domain.fleet import Fleet, WorkerAccount, WorkerState
from tlt_common.errors import PermissionDeniedError, UnauthenticatedError, UnavailableError
from tlt_common.rpc.access import Access, Caller
from tlt_common.rpc.bearer import Bearer
from tlt_common.rpc.tokens import Scope, tokens_in

PAGE = "StatusPage"


def app(fleet: Callable[[], Fleet], access: Access | None = None) -> FastAPI:
    """
    Return the application.

    Args:
        fleet: Returns the current state of the fleet; raises UnavailableError when another replica leads.
        access: Access control; None: everybody has access.
    """
    api = FastAPI(title="TLT coordinator", docs_url=None, redoc_url=None)

    @api.get("/status")
    async def status(request: Request) -> dict[str, JsonValue]:
        if access is not None:
            _admit(access, request)
        try:
            return fleet_json(fleet())
        except UnavailableError as error:
            raise HTTPException(status_code=503, detail=error.message) from error

    @api.get("/healthz")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    return api


def _admit(access: Access, request: Request) -> None:
    """
    Check the token of the request.

    Raises:
        HTTPException: The token is missing, invalid, or does not allow access.
    """
    caller = Caller(
        service=PAGE,
        method="status",
        peer=request.client.host if request.client else "",
        authorization=request.headers.get("authorization", ""),
    )
    try:
        access.identify(caller)
        access.permit(caller, None)
    except UnauthenticatedError as error:
        raise HTTPException(401, error.message, {"WWW-Authenticate": "Bearer"}) from None
    except PermissionDeniedError as error:
        raise HTTPException(403, error.message) from None


def access_of(tokens: Path | None) -> Access | None:
    """
    Return the access control of the page: a token of scope admin; None, without a token file: everybody has access.

    Raises:
        ConfigError: The token file cannot be used.
    """
    return Bearer(tokens_in(tokens), lambda _method, _request: (Scope.ADMIN,)) if tokens else None


def fleet_json(fleet: Fleet) -> dict[str, JsonValue]:
    """Return all that GetFleet returns, plus the mean accept length of the workers that decode."""
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
    return {
        **asdict(account.hello),
        **asdict(status),
        "state": status.state.value,
        "training_loss": status.training_loss if isfinite(status.training_loss) else None,
        "seconds": {state.value: seconds for state, seconds in account.seconds.items()},
        "timeline": [{"state": change.state.value, "at_unix_s": change.at_unix_s} for change in account.timeline],
    }
