from pathlib import Path

import pytest

from tests.fakes.full_disk import full_disk
from tlt_local.supervision.log_rotation import OLDER, rotate

MAX_BYTES = 100


def test_a_process_goes_on_writing_to_a_log_that_was_rotated(tmp_path: Path) -> None:
    small, large = tmp_path / "small.log", tmp_path / "large.log"
    small.write_bytes(b"s" * MAX_BYTES)
    with large.open("ab", buffering=0) as process:
        for round_ in range(3):
            process.write(b"%d" % round_ * (MAX_BYTES + 1))
            rotate(tmp_path, MAX_BYTES)
            assert large.read_bytes() == b""
            assert large.with_name("large.log" + OLDER).read_bytes() == b"%d" % round_ * (MAX_BYTES + 1)
        process.write(b"last")
    assert large.read_bytes() == b"last"
    assert small.read_bytes() == b"s" * MAX_BYTES
    assert len(list(tmp_path.iterdir())) == 3


def test_a_full_disk_loses_no_log(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"a" * 2 * MAX_BYTES)
    with full_disk(), pytest.raises(OSError, match="large"):
        rotate(tmp_path, MAX_BYTES)
    assert (tmp_path / "a.log").read_bytes() == b"a" * 2 * MAX_BYTES
