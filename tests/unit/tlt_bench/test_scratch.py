"""What is left of a bench's folder."""

import shutil
from pathlib import Path

import pytest

from tlt_bench.scratch import scratch
from tlt_common.errors import TltError

places: list[Path] = []


def played(error: BaseException | None) -> Path:
    """Write a log, and fail or not; `places` gets the folder."""
    with scratch() as directory:
        (directory / "trainer.log").write_text("words")
        places.append(directory)
        if error is not None:
            raise error
    return directory


def test_nothing_is_left_of_a_bench_that_ends() -> None:
    assert not played(None).exists()


def test_logs_stay_if_the_suite_failed() -> None:
    with pytest.raises(TltError):
        played(TltError("see trainer.log"))
    assert (places[-1] / "trainer.log").read_text() == "words"
    shutil.rmtree(places[-1])


def test_nothing_is_left_after_an_interrupt() -> None:
    with pytest.raises(KeyboardInterrupt):
        played(KeyboardInterrupt())
    assert not places[-1].exists()
