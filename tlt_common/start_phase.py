"""What a process is doing while it starts: logged, and written to a file for whoever waits for it."""

from contextlib import suppress
from pathlib import Path

from tlt_common.telemetry.log import get_logger
from tlt_common.whole_file import write_whole

log = get_logger(__name__)

SUFFIX = ".phase"


def phase_file(port_file: Path | None) -> Path | None:
    """Return the file of a process's phase, next to its port file; None without one."""
    return port_file.with_suffix(SUFFIX) if port_file else None


def enter(phase: str, file: Path | None) -> None:
    """Log that a phase of the start begins, and write it to `file`. A file that cannot be written is ignored."""
    log.info("start_phase", phase=phase)
    if file is not None:
        with suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            write_whole(file, phase.encode())
