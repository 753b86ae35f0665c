import os
from pathlib import Path
from typing import Any

import pytest

from tlt_worker.placement.local import FleetSpec

pytest.importorskip("ray")

from tlt_worker.placement.local_ray import start_ray


def test_a_ray_that_does_not_start_in_time_is_a_temporary_failure_with_its_reason(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def init(**options: Any) -> None:
        assert options["_temp_dir"] == str(tmp_path / "ray")
        raise Exception("The current node timed out during startup.")  # noqa: TRY002 - what Ray raises

    spec = FleetSpec(worker={}, replicas=1, directory=tmp_path, logs=tmp_path)
    with pytest.raises(SystemExit) as left:
        start_ray(spec, init=init)
    assert left.value.code == os.EX_TEMPFAIL
    lines = capfd.readouterr().err.splitlines()
    assert lines[-1] == "Ray did not start: The current node timed out during startup."
