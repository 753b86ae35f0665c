"""GPUs that `tlt up` and its workers find with a CUDA driver whose devices do not exist."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.cuda_driver import GIB, FakeDriver, FakeGpu, build, gpu, mig
from tlt_local.supervision.processes import STARTS

ROOT = Path(__file__).parents[3]
MODEL = ROOT / "demos/countdown/countdown/checkpoint"
A100_40 = gpu(1, name="NVIDIA A100-SXM4-40GB", memory=40 * GIB, generation=8)
USAGE = 2
EIGHT = tuple(gpu(index) for index in range(8))
SLICES = (mig(0), mig(1), mig(2))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("driver"))


def run(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def visible(*gpus: FakeGpu) -> str:
    return ",".join(each.uuid for each in gpus)


@pytest.mark.parametrize(
    ("gpus", "named", "count"),
    [
        ((), None, 0),
        (EIGHT[:1], None, 1),
        (EIGHT, None, 8),
        (EIGHT, "", 0),
        (EIGHT, "-1", 0),
        (EIGHT, "3", 1),
        (EIGHT, "0, 7,-1,2", 2),
        (EIGHT, visible(*EIGHT[2:5]), 3),
        (EIGHT, "GPU-3,GPU-5", 2),  # the beginning of a UUID is enough
        (SLICES, visible(*SLICES[1:]), 2),
        (SLICES, None, 1),
    ],
)
def test_gpus_are_counted_as_the_driver_shows_them(
    folder: Path, gpus: tuple[FakeGpu, ...], named: str | None, count: int
) -> None:
    code = "from tlt_local.configuration.gpus import available_gpus; print(available_gpus().count)"
    counted = run(FakeDriver(folder=folder, gpus=gpus).environment(named), "-c", code)
    assert counted.stdout.strip() == str(count), counted.stderr


@pytest.mark.parametrize(
    ("gpus", "named", "variables", "options", "words"),
    [
        (EIGHT[:2], None, {}, ["--set", "worker.engine.tensor_parallel=4"], "worker.engine.tensor_parallel is 4, but"),
        (EIGHT[:2], None, {}, ["--workers", "3"], "--workers is 3, with 1 GPU each, but this machine has 2 GPUs"),
        (EIGHT[:2], "1", {}, ["--workers", "2"], "--workers is 2, with 1 GPU each, but this machine has 1 GPU;"),
        (EIGHT[:2], None, {}, ["--gpus-per-worker", "4"], "--gpus-per-worker is 4, but this machine has 2 GPUs"),
        (EIGHT[:2], "0,5", {}, [], "CUDA_VISIBLE_DEVICES is '0,5', of which the CUDA driver finds 1; accepted"),
        (EIGHT[:2], "5", {}, [], "CUDA_VISIBLE_DEVICES is '5', of which the CUDA driver finds 0; accepted"),
        (EIGHT[:2], "0,0", {}, [], "CUDA_VISIBLE_DEVICES is '0,0'"),
        (EIGHT[:2], "GPU-9", {}, [], "CUDA_VISIBLE_DEVICES is 'GPU-9'"),
        (SLICES, None, {}, ["--workers", "2"], "(MIG slices count if CUDA_VISIBLE_DEVICES names them)"),
        (SLICES, visible(*SLICES), {}, ["--workers", "1", "--gpus-per-worker", "2"], "can use only one MIG slice"),
        (EIGHT, None, {"TLT_FAKE_CUDA_ERROR": "802"}, [], "does not start: CUDA_ERROR_SYSTEM_NOT_READY (802)"),
        (EIGHT, None, {"TLT_FAKE_CUDA_VERSION": "12040"}, [], "supports CUDA 12.4, but torch was built for CUDA"),
    ],
)
def test_a_combination_that_cannot_be_is_refused_before_anything_starts(
    folder: Path,
    gpus: tuple[FakeGpu, ...],
    named: str | None,
    variables: dict[str, str],
    options: list[str],
    words: str,
) -> None:
    driver = FakeDriver(folder=folder, gpus=gpus, variables=variables)
    up = ["-m", "tlt_common.cli", "up", "--model", str(MODEL), "--port", "0"]
    refused = run({**driver.environment(named), "COLUMNS": "1000"}, *up, *options)
    assert refused.returncode == USAGE, refused.stderr
    assert words in refused.stderr
    assert (
        "accepted:" in refused.stderr
        or "the maximum is" in refused.stderr
        or "install" in refused.stderr
        or "repair" in refused.stderr
    )
    assert "starting" not in refused.stdout


@pytest.mark.parametrize(
    ("gpus", "named", "assigned", "error"),
    [
        (EIGHT[:1], None, 1, ""),
        (EIGHT[:4], None, 4, ""),
        (EIGHT[:2], None, 1, "Ray assigned 1 GPUs to this worker, but the CUDA driver finds 2"),
        ((), None, 1, "Ray assigned 1 GPUs to this worker, but the CUDA driver finds 0"),
        (SLICES, visible(*SLICES[:2]), 2, "the CUDA driver finds 1"),
    ],
)
def test_a_worker_needs_exactly_its_gpus(
    folder: Path, gpus: tuple[FakeGpu, ...], named: str | None, assigned: int, error: str
) -> None:
    code = f"from tlt_worker.placement.gpus import claim; claim({assigned})"
    claimed = run(FakeDriver(folder=folder, gpus=gpus).environment(named), "-c", code)
    assert error in claimed.stderr
    assert (claimed.returncode == 0) == (not error)


def test_a_worker_without_gpus_hides_those_of_the_machine(folder: Path) -> None:
    code = (
        "from tlt_worker.placement.gpus import claim; from tlt_worker.engine.device import detect;"
        "claim(0); print(detect().kind)"
    )
    broken = FakeDriver(folder=folder, gpus=EIGHT, variables={"TLT_FAKE_CUDA_ERROR": "999"})
    for driver in (FakeDriver(folder=folder, gpus=EIGHT), broken):
        assert run(driver.environment(), "-c", code).stdout.strip() == "cpu"


def placed(driver: FakeDriver, named: str | None, tmp_path: Path, **options: object) -> list[dict[str, Any]]:
    """What each worker of `tlt up` finds, with these keys of its file."""
    file = tmp_path / "up.yaml"
    file.write_text(json.dumps({"model": str(MODEL), "port": 0, **options}))
    # Processes with Ray's default niceness starve on a busy machine; RL trainers set the other variable.
    ray = {"RAY_worker_niceness": "0", "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES": "1"}
    for _ in range(STARTS):
        probed = run({**driver.environment(named), **ray}, "-m", "tests.fakes.gpu_probe", str(file))
        if probed.returncode != os.EX_TEMPFAIL:  # Ray did not start in time
            break
    assert probed.returncode == 0, probed.stderr
    found: list[dict[str, Any]] = json.loads(probed.stdout.splitlines()[-1])
    for worker in found:
        assert worker["trainer"] == {key: worker[key] for key in ("visible", "memory")}
    return found


def test_each_worker_and_its_trainer_get_one_of_two_unlike_gpus(folder: Path, tmp_path: Path) -> None:
    found = placed(FakeDriver(folder=folder, gpus=(gpu(0), A100_40)), None, tmp_path, workers=2)
    assert {worker["visible"]: worker["memory"] for worker in found} == {"0": [80 * GIB], "1": [40 * GIB]}
    assert [(worker["device"], worker["ranks"]) for worker in found] == [("cuda", 1)] * 2


def test_engines_of_two_ranks_share_the_named_gpus_of_eight(folder: Path, tmp_path: Path) -> None:
    chosen = EIGHT[3:7]
    engine = {"engine": {"tensor_parallel": 2}}
    found = placed(FakeDriver(folder=folder, gpus=EIGHT), visible(*chosen), tmp_path, workers=2, worker=engine)
    assert sorted(name for worker in found for name in worker["visible"].split(",")) == [each.uuid for each in chosen]
    assert [(len(worker["memory"]), worker["ranks"]) for worker in found] == [(2, 2)] * 2


def test_each_worker_gets_a_slice(folder: Path, tmp_path: Path) -> None:
    found = placed(FakeDriver(folder=folder, gpus=SLICES), visible(*SLICES), tmp_path, workers=3)
    assert sorted(worker["visible"] for worker in found) == [each.uuid for each in SLICES]
    assert [worker["memory"] for worker in found] == [[10 * GIB]] * 3


def test_workers_that_shall_run_on_the_cpu_find_no_gpu(folder: Path, tmp_path: Path) -> None:
    found = placed(FakeDriver(folder=folder, gpus=EIGHT), "2,3", tmp_path, workers=1, gpus_per_worker=0)
    assert [(worker["visible"], worker["memory"], worker["device"]) for worker in found] == [("", [], "cpu")]
