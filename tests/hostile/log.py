"""A hostile or damaged log, as `tlt simulate` reads it: refused by name, within bounds, or read."""

import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.hostile.case import At
from tlt_common.errors import ConfigError
from tlt_simulator.traces import read_apart, read_trace

READ_S = 150.0
"""A log that takes longer counts as read wrongly: a reader of a small one may have two minutes of CPU time."""
MAX_REFUSAL = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """Files of a log."""

    name: str
    files: Callable[[], Mapping[str, bytes]]
    """Makes them, by their names; with a single one, that file is the log, and otherwise their folder."""
    form: str | None = None
    says: str = ""
    """Text of the refusal; empty: it may also be read."""
    apart: bool = False
    """Whether it is read as the command does, in a process of its own: what would fill the memory of this one."""
    at: At = At.READER


def wrong_with_log(log: Log) -> str:
    """Read a log; return what is wrong with the result, or nothing."""
    with tempfile.TemporaryDirectory(prefix="tlt-log-") as scratch:
        files = log.files()
        for name, content in files.items():
            path = Path(scratch) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        path = Path(scratch) / next(iter(files)) if len(files) == 1 else Path(scratch)
        began_s, said = time.monotonic(), ""
        try:
            if log.apart:
                read_apart(path, form=log.form)
            else:
                read_trace(path, form=log.form)
        except ConfigError as error:
            said = error.message
        if (took_s := time.monotonic() - began_s) > READ_S:
            return f"took {took_s:.0f} s"
        if len(said) > MAX_REFUSAL:
            return f"a refusal of {len(said)} characters"
        return "" if log.says in said else f"said {said[:300]!r}"
