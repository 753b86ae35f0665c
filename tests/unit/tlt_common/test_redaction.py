"""Passwords in URLs appear in no error and no log."""

import io
import json
import sys

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from tlt_common.errors import ConfigError, UnavailableError
from tlt_common.redaction import redacted
from tlt_common.telemetry.log import configure

SECRET = "hunter2-is-secret"  # noqa: S105 - not one
URL = f"rediss://user:{SECRET}@redis.internal:6379/0"
PASSWORDS = st.text(st.characters(exclude_categories=["C", "Z"], exclude_characters="/?#@'\"~"), min_size=1)


@given(PASSWORDS, st.sampled_from(["redis", "rediss", "ftp", "https", "s3"]))
def test_a_password_is_removed_and_the_rest_stays(password: str, scheme: str) -> None:
    text = f"cannot read {scheme}://~user:~{password}~@host:1/path@2, again"
    assert redacted(text) == f"cannot read {scheme}://***@host:1/path@2, again"


@pytest.mark.parametrize("text", ["a@b", "s3://bucket/a@1", "redis://host:6379/0", "file:///tmp/x@y:z", "a: b@c"])
def test_text_without_a_password_is_not_changed(text: str) -> None:
    assert redacted(text) == text


def test_errors_do_not_repeat_passwords() -> None:
    for error in (UnavailableError(f"{URL} cannot be used"), ConfigError(f"redis is {URL!r}", field="redis")):
        assert SECRET not in f"{error} {error!r} {error.message}"
        assert "redis.internal" in error.message


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    configure("info")
    return stream


def test_logs_do_not_contain_passwords_in_values_or_tracebacks(logged: io.StringIO) -> None:
    log = structlog.get_logger()
    log.warning("event", url=URL, nested={"urls": [URL, 3]})
    try:
        int(URL)
    except ValueError:
        log.exception("failed")
    lines = [json.loads(line) for line in logged.getvalue().splitlines()]
    assert SECRET not in logged.getvalue()
    assert lines[0]["nested"] == {"urls": ["rediss://***@redis.internal:6379/0", 3]}
    assert "ValueError" in lines[1]["exception"]
