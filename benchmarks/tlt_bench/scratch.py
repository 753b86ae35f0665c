"""Temporary directory for benchmarks that start the whole suite."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tlt_common.errors import TltError


@contextmanager
def scratch() -> Iterator[Path]:
    """Yield a temporary directory. It is kept after a TltError, whose message refers to its logs."""
    directory, is_kept = Path(tempfile.mkdtemp(prefix="tlt-bench-")), False
    try:
        yield directory
    except TltError:
        is_kept = True
        raise
    finally:
        if not is_kept:
            shutil.rmtree(directory, ignore_errors=True)
