"""A folder of a bench that starts the whole suite."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tlt_common.errors import TltError


@contextmanager
def scratch() -> Iterator[Path]:
    """Give a folder for a while. After an error of ours it stays: the error names logs in it."""
    directory, is_kept = Path(tempfile.mkdtemp(prefix="tlt-bench-")), False
    try:
        yield directory
    except TltError:
        is_kept = True
        raise
    finally:
        if not is_kept:
            shutil.rmtree(directory, ignore_errors=True)
