"""What a caller gets, and what is counted, if an HTTP call fails for a reason that nobody expected."""

from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI
from starlette.responses import StreamingResponse

from tlt_common.errors import OverloadedError
from tlt_common.rpc.http.calls import CountedCalls, code_of
from tlt_common.rpc.http.failures import answer_errors
from tlt_common.telemetry import metrics


def app() -> FastAPI:
    api = FastAPI()
    api.add_middleware(CountedCalls, service="Test")
    answer_errors(api, listed_in="the test")

    @api.get("/defect")
    async def defect() -> None:
        raise ZeroDivisionError("a secret")

    @api.get("/full")
    async def full() -> None:
        raise OverloadedError("full \ud800", field="\ud800", retry_after_s=2.4)

    @api.get("/broken")
    async def broken() -> StreamingResponse:
        async def parts() -> AsyncIterator[bytes]:
            yield b"a"
            raise ZeroDivisionError

        return StreamingResponse(parts())

    return api


def counted(method: str, code: str) -> float:
    return float(metrics.RPC_CALLS.labels(service="Test", method=method, code=code)._value.get())


async def get(path: str) -> httpx.Response:
    transport = httpx.ASGITransport(app(), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        return await client.get(path)


async def test_a_defect_is_answered_as_json_and_counted_as_the_alert_on_calls_needs_it() -> None:
    before = counted("/defect", "INTERNAL")
    answer = await get("/defect")
    assert answer.status_code == 500
    assert answer.json()["error"]["type"] == "INTERNAL"
    assert "secret" not in answer.text
    assert counted("/defect", "INTERNAL") == before + 1


async def test_a_defect_in_mid_answer_counts_too() -> None:
    before = counted("/broken", "INTERNAL")
    await get("/broken")
    assert counted("/broken", "INTERNAL") == before + 1


async def test_an_error_has_its_status_and_its_headers_whatever_its_text() -> None:
    before = counted("/full", "RESOURCE_EXHAUSTED")
    answer = await get("/full")
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "2")
    assert answer.json()["error"] == {
        "message": "full \\ud800",
        "type": "OVERLOADED",
        "code": 429,
        "param": "\\ud800",
    }
    assert counted("/full", "RESOURCE_EXHAUSTED") == before + 1


async def test_a_path_that_is_not_served_is_counted_without_its_name() -> None:
    before = counted("unknown", "NOT_FOUND")
    assert (await get("/nothing")).status_code == 404
    assert counted("unknown", "NOT_FOUND") == before + 1


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (200, "OK"), (400, "INVALID_ARGUMENT"), (401, "UNAUTHENTICATED"), (431, "INVALID_ARGUMENT"), (500, "INTERNAL"),
        (502, "INTERNAL"), (503, "UNAVAILABLE"),
    ],
)  # fmt: skip
def test_a_status_has_the_code_of_grpc(status: int, code: str) -> None:
    assert code_of(status) == code
