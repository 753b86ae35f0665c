from pathlib import Path

from tlt_worker.placement.local import FleetSpec


def test_replicas_that_did_not_start_are_told_in_one_line_with_one_reason_each(tmp_path: Path) -> None:
    spec = FleetSpec(worker={}, replicas=3, directory=tmp_path, logs=tmp_path)
    assert spec.failure() == ""
    spec.note_failure(1, "SGLang did not start:\nout of memory")
    spec.note_failure(0, "SGLang did not start:\nout of memory")
    spec.note_failure(2, "model: another reason")
    assert spec.failure() == "worker-0, worker-1: SGLang did not start: out of memory; worker-2: model: another reason"


def test_a_reason_that_is_being_written_is_not_read(tmp_path: Path) -> None:
    spec = FleetSpec(worker={}, replicas=2, directory=tmp_path, logs=tmp_path)
    spec.failures.mkdir()
    (spec.failures / "0.partial").touch()
    assert spec.failure() == ""
    spec.note_failure(1, "model: a reason")
    assert spec.failure() == "worker-1: model: a reason"
