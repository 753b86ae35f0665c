"""The trainer's storage on S3: a bucket whose every third call fails loses nothing and never looks empty."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest
from s3fs import S3FileSystem

from tlt_bench.campaign.storage.object_store import FailingCalls, create_bucket, environment, serving
from tlt_common.errors import NotFoundError, UnavailableError
from tlt_trainer.store.storage import Storage, read_uri

MARK = "meta.json"
FILES = {"model.safetensors": b"weights" * 1000, "meta.json": b"{}"}


@pytest.fixture
def retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the client make two attempts; otherwise it makes one."""
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "2")


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[FailingCalls]:
    with serving() as (calls, endpoint), client_of(endpoint, monkeypatch):
        create_bucket(calls.bucket)
        yield calls


@contextmanager
def client_of(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make S3 clients of this process use an endpoint."""
    attempts = {"AWS_MAX_ATTEMPTS": os.environ.get("AWS_MAX_ATTEMPTS", "1")}
    for name, value in {**environment(endpoint), **attempts}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(S3FileSystem, "retries", 1)
    S3FileSystem.clear_instance_cache()
    try:
        yield
    finally:
        S3FileSystem.clear_instance_cache()


def storage(calls: FailingCalls) -> Storage:
    return Storage(f"s3://{calls.bucket}/w0", mark=MARK)


@pytest.mark.usefixtures("retries")
def test_one_retry_per_call_is_enough(store: FailingCalls) -> None:
    store.one_in = 3
    for name in ("000001", "000002"):
        assert read_uri(storage(store).write(name, FILES), mark=MARK) == storage(store).read(name) == FILES
    assert storage(store).set_aside("000001") == "000001.damaged"
    storage(store).remove("000002")
    assert storage(store).names() == ["000001.damaged"]


def test_without_retries_each_call_succeeds_or_is_unavailable(store: FailingCalls) -> None:
    uri = storage(store).write("000001", FILES)
    store.one_in = 9
    outcomes: list[object] = []
    for _ in range(12):
        for call in (storage(store).names, partial(storage(store).read, "000001"), partial(read_uri, uri, mark=MARK)):
            try:
                outcomes.append(call())
            except UnavailableError as error:
                outcomes.append(type(error))
            store.calls += 1  # another client's; otherwise the same calls would fail each time
    for expected in (UnavailableError, FILES, ["000001"]):
        assert expected in outcomes
        outcomes = [outcome for outcome in outcomes if outcome != expected]
    assert not outcomes


def test_a_store_that_only_fails_is_never_taken_for_empty(store: FailingCalls) -> None:
    uri = storage(store).write("000001", FILES)
    store.one_in = 1
    for call in (
        storage(store).names,
        lambda: storage(store).read("000001"),
        lambda: read_uri(uri, mark=MARK),
    ):
        with pytest.raises(UnavailableError):
            call()
    store.one_in = 0
    with pytest.raises(NotFoundError):
        storage(store).read("000009")
    assert storage(store).names() == ["000001"]


async def test_a_store_nobody_answers_for_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here botocore raises an error that is no OSError."""
    with client_of("http://127.0.0.1:1", monkeypatch):
        with pytest.raises(UnavailableError):
            await asyncio.to_thread(Storage("s3://any/w0", mark=MARK).read, "000001")
        with pytest.raises(UnavailableError):
            await asyncio.to_thread(Storage("s3://any/w0", mark=MARK).write, "000001", FILES)
