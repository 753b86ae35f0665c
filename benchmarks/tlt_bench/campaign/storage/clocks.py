"""A separate wall clock for a suite that can be set while it runs. Monotonic clocks are unaffected."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

LIBRARY = "vendor/libfaketime/src/libfaketime.so.1"
HOUR_S = 3600
DAY_S = 24 * HOUR_S
JUMPS_S: Mapping[str, int] = {
    "clock an hour ahead": HOUR_S,
    "clock an hour behind": -HOUR_S,
    "clock a day ahead": DAY_S,
    "clock a day behind": -DAY_S,
}


def why_not() -> str:
    """Return why no clock can be set, or an empty string."""
    if library() is None:
        return "clocks: needs libfaketime, which needs a C compiler: uv pip install -e 'benchmarks[clocks]'"
    return ""


def library() -> Path | None:
    """Return the shared library of libfaketime; None if it is not installed."""
    # The one on PyPI. Debian's fails in `time.sleep` of Python 3.11 and later while monotonic clocks are real.
    spec = find_spec("libfaketime")
    for folder in (spec.submodule_search_locations if spec else None) or ():
        if (path := Path(folder) / LIBRARY).is_file():
            return path
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShiftedClock:
    """
    The wall clock of all processes started with `environment`.

    Args:
        file: Holds the offset; processes read it once a second.
        library: Shared library of libfaketime.
    """

    file: Path
    library: Path

    @property
    def environment(self) -> Mapping[str, str]:
        """Environment variables of the processes that use this clock."""
        return {
            "LD_PRELOAD": str(self.library),
            "FAKETIME_TIMESTAMP_FILE": str(self.file),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            # Otherwise waits until a moment on a monotonic clock are wrong by the offset, and threads wait for Python's
            # lock five times as long.
            "FAKETIME_FORCE_MONOTONIC_FIX": "0",
            "NO_FAKE_STAT": "1",
        }

    def set(self, offset_s: int) -> None:
        """Set the clock to the machine's time and this offset."""
        written = self.file.with_suffix(".new")
        written.write_text(f"{offset_s:+d}\n")
        written.rename(self.file)  # a reader never sees half of it


def clock_at(file: Path) -> ShiftedClock | None:
    """Return a clock that shows the machine's time, or None without libfaketime."""
    if (path := library()) is None:
        return None
    file.parent.mkdir(parents=True, exist_ok=True)
    clock = ShiftedClock(file=file, library=path)
    clock.set(0)
    return clock
