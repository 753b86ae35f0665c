from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from tlt_common.rpc.http.failures import answer_errors
from tlt_coordinator.http.bundle import router_of


@pytest.fixture
def client(tmp_path: Path) -> httpx.AsyncClient:
    (tmp_path / "index.html").write_text("<!doctype html>")
    (tmp_path / "main.js").write_text("export {};")
    (tmp_path / "style.css").write_text("body {}")
    (tmp_path / "notes.txt").write_text("not served")
    served = FastAPI()
    answer_errors(served, listed_in="docs/api.md")
    served.include_router(router_of(tmp_path))
    return httpx.AsyncClient(transport=httpx.ASGITransport(served), base_url="http://coordinator")


@pytest.mark.parametrize(
    ("path", "kind"), [("/", "text/html"), ("/page/main.js", "text/javascript"), ("/page/style.css", "text/css")]
)
async def test_files_of_the_page_are_served_with_their_types_and_a_strict_policy(
    client: httpx.AsyncClient, path: str, kind: str
) -> None:
    answer = await client.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == f"{kind}; charset=utf-8"
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"


async def test_a_file_that_has_not_changed_is_not_sent_again(client: httpx.AsyncClient) -> None:
    first = await client.get("/page/main.js")
    again = await client.get("/page/main.js", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    other = await client.get("/page/main.js", headers={"If-None-Match": '"other"'})
    assert other.content == first.content


@pytest.mark.parametrize("file", ["notes.txt", "..%2fbundle.py", "none.js", "%2e%2e", "index.html%00"])
async def test_nothing_else_is_served(client: httpx.AsyncClient, file: str) -> None:
    assert (await client.get(f"/page/{file}")).status_code == 404
