"""Sessions over HTTP, of all protocols."""

from typing import Any

import pytest

from tests.fakes.worker import FakeWorker
from tests.integration.gateway.http.conftest import Serve

CALLS: list[tuple[str, dict[str, Any]]] = [
    ("/generate", {"input_ids": [1, 2, 3], "sampling_params": {"max_new_tokens": 2}}),
    ("/v1/completions", {"prompt": [1, 2, 3], "max_tokens": 2}),
    ("/inference/v1/generate", {"token_ids": [1, 2, 3], "sampling_params": {"max_tokens": 2}}),
]


def cached(answer: dict[str, Any]) -> Any:
    if "meta_info" in answer:
        return answer["meta_info"]["cached_tokens"]
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"]


@pytest.mark.parametrize(("path", "body"), CALLS)
async def test_a_header_names_the_session(serve: Serve, worker: FakeWorker, path: str, body: dict[str, Any]) -> None:
    async with serve(worker) as http:
        first = (await http.post(path, body, headers={"X-Session-ID": "s"})).json()
        again = (await http.post(path, body, headers={"X-SMG-Routing-Key": "t"})).json()
        assert (cached(first), cached(again)) == (0, 2)
        assert [prompt.session_id for prompt in worker.prompts] == ["s", "t"]
        finished = [(await http.post("/finish_session?session_id=t")).json()["known"] for _ in range(2)]
    assert finished == [True, False]


@pytest.mark.parametrize(("path", "body"), [*CALLS, ("/v1/chat/completions", {"messages": [{"role": "user"}]})])
@pytest.mark.parametrize("headers", [{"X-Session-ID": "s", "X-SMG-Routing-Key": "t"}, {"X-Session-ID": "s" * 257}])
async def test_a_session_that_cannot_be_is_refused(
    serve: Serve, worker: FakeWorker, path: str, body: dict[str, Any], headers: dict[str, str]
) -> None:
    async with serve(worker) as http:
        answer = await http.post(path, body, headers=headers)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "X-Session-ID")
        unnamed = await http.post("/finish_session")
    assert (unnamed.status_code, unnamed.json()["error"]["param"]) == (400, "session_id")
    assert not worker.prompts
