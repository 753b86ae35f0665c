import logging
from pathlib import Path

from tlt_worker.link.failure import FailureNote, read_failure

TRACEBACK = """Scheduler hit an exception: Traceback (most recent call last):
  File "scheduler.py", line 1, in run
    load()
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.
"""


def test_the_last_line_of_the_first_schedulers_traceback_is_kept(tmp_path: Path) -> None:
    logger, note = logging.getLogger("a.scheduler"), FailureNote(tmp_path / "failure")
    logger.addHandler(note)
    logger.info("loading %s", "weights")
    assert read_failure(tmp_path / "failure") == ""
    logger.error(TRACEBACK)
    logger.error("Scheduler hit an exception: another rank's")
    logger.removeHandler(note)
    assert (
        read_failure(tmp_path / "failure") == "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    )


def test_sglang_still_logs_what_the_note_looks_for() -> None:
    from importlib.util import find_spec

    found = find_spec("sglang")
    assert found is not None
    assert found.submodule_search_locations is not None
    source = Path(found.submodule_search_locations[0]) / "srt" / "managers" / "scheduler.py"
    assert "hit an exception: {traceback}" in source.read_text()
