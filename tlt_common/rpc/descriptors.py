"""
File descriptors: raises their limit, and reserves some that clients' connections cannot take.

A process without descriptors can neither accept a worker nor open a file, and its event loop retries in a busy loop.
"""

import asyncio
import errno
import resource
from collections.abc import Callable
from typing import Any

from tlt_common.telemetry.log import get_logger

log = get_logger(__name__)

MAX_WANTED = 2**20
"""Soft limit that is asked for. Where the hard limit is infinite, libraries that walk all possible descriptors before
they start a child process would take seconds."""
GRPC_SHARE, HTTP_SHARE = 0.5, 0.25
"""Shares of all descriptors that connections to a process's gRPC and HTTP ports may have. The others are for what it
opens itself: connections to workers and peers, files, and the port for operators."""
TOLD_EVERY_S = 60.0
"""Minimum seconds between two log lines that say that there are none left."""
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


def raise_limit() -> int:
    """Raise the soft limit up to the hard limit and `MAX_WANTED`; return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MAX_WANTED
    wanted = max(soft, MAX_WANTED if hard == resource.RLIM_INFINITY else min(hard, MAX_WANTED))
    if wanted > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


def connections(share: float, limit: int | None = None) -> int:
    """Return the maximum number of connections to a port that may take `share` of the descriptors, at most `limit`."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    affordable = max(1, int((MAX_WANTED if soft == resource.RLIM_INFINITY else soft) * share))
    return affordable if limit is None else min(affordable, limit)


def exhaustion_logged(now: Callable[[], float]) -> Callable[[asyncio.AbstractEventLoop, dict[str, Any]], None]:
    """
    Return an exception handler for event loops. asyncio reports each connection that it cannot accept with a traceback,
    thousands per second; this handler reports it once a minute. Other exceptions go to the default handler.
    """
    told_s = -TOLD_EVERY_S

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        nonlocal told_s
        error = context.get("exception")
        if not (isinstance(error, OSError) and error.errno in _EXHAUSTED and "socket" in context):
            loop.default_exception_handler(context)
        elif now() - told_s >= TOLD_EVERY_S:
            told_s = now()
            limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            log.error("connections_not_accepted", error=error.strerror, descriptors_max=limit)

    return handle
