"""The limit of descriptors is raised, and connections of strangers leave some."""

import asyncio
import errno
import resource
import subprocess
import sys

import pytest

from tlt_common.rpc.descriptors import MAX_WANTED, TOLD_EVERY_S, connections, exhaustion_logged
from tlt_common.rpc.limits import Limits

RAISED = """
import resource
from tlt_common.rpc.descriptors import raise_limit
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 4096))
print(raise_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def test_the_soft_limit_is_raised_to_the_hard_one() -> None:
    done = subprocess.run([sys.executable, "-c", RAISED], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["4096"] * 3


@pytest.mark.parametrize(
    ("soft", "share", "limit", "found"),
    [
        (1024, 0.5, None, 512),
        (1024, 0.5, 8192, 512),
        (1 << 16, 0.5, 8192, 8192),
        (1, 0.25, None, 1),
        (resource.RLIM_INFINITY, 0.5, None, MAX_WANTED // 2),
    ],
)
def test_connections_take_a_share(
    soft: int, share: float, limit: int | None, found: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, soft))
    assert connections(share, limit) == found


def test_every_server_has_a_maximum_of_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1000, 1000))
    assert ("grpc.max_allowed_incoming_connections", 500) in Limits().options()


def test_exhaustion_is_logged_once_a_minute(capsys: pytest.CaptureFixture[str]) -> None:
    now_s = 0.0
    handle, loop = exhaustion_logged(lambda: now_s), asyncio.new_event_loop()
    told: list[dict[str, object]] = []
    loop.default_exception_handler = told.append  # type: ignore[method-assign, assignment]
    try:
        for _ in range(1000):
            handle(loop, {"message": "accept", "exception": OSError(errno.EMFILE, "Too many"), "socket": object()})
        now_s += TOLD_EVERY_S
        handle(loop, {"message": "accept", "exception": OSError(errno.EMFILE, "Too many"), "socket": object()})
        other = {"message": "other", "exception": ValueError()}
        handle(loop, other)
    finally:
        loop.close()
    assert told == [other]
    assert "".join(capsys.readouterr()).count("connections_not_accepted") == 2
