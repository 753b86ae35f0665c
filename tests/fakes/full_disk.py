"""A disk on which no file can grow beyond a limit: the system's own error, without mounting anything."""

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def full_disk(limit_bytes: int = 0) -> Iterator[None]:
    """Let every write of this process beyond the limit fail with an OSError within the block. Write no logs in it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # by default it ends the process
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
