from pathlib import Path

import pytest

from tests.fakes.authority import Authority
from tlt_common.errors import ConfigError
from tlt_local.configuration.certificates import COMPONENTS, certificate_of, check_certificates
from tlt_local.configuration.gpus import TENSOR_PARALLEL, WORKERS_ON_CPU, Available, Placement, placed, with_ranks
from tlt_local.configuration.settings import flattened, settings_of

RANKS = settings_of({}, (f"worker.{TENSOR_PARALLEL}=2",))["worker"]


@pytest.mark.parametrize(
    ("workers", "wanted", "worker", "available", "each"),
    [
        (2, None, {}, 0, 0),
        (2, None, {}, 2, 1),
        (2, None, {}, 8, 1),
        (2, None, RANKS, 4, 2),
        (2, None, RANKS, 0, 0),
        (2, 0, {}, 8, 0),
        (2, 4, {}, 8, 4),
        (1, 2, RANKS, 2, 2),
        (1, 0, RANKS, 2, 0),
    ],
)
def test_each_worker_gets_its_own_gpus(
    workers: int, wanted: int | None, worker: dict[str, object], available: int, each: int
) -> None:
    found = placed(workers, wanted, worker, available=Available(count=available))
    assert found == Placement(workers=workers, gpus_each=each)


@pytest.mark.parametrize(
    ("wanted", "worker", "available", "workers"),
    [
        (None, {}, 0, WORKERS_ON_CPU),
        (0, {}, 8, WORKERS_ON_CPU),
        (None, {}, 1, 1),
        (None, {}, 8, 8),
        (None, RANKS, 8, 4),
        (None, RANKS, 3, 1),
        (4, {}, 8, 2),
    ],
)
def test_by_default_there_are_as_many_workers_as_gpus_suffice_for(
    wanted: int | None, worker: dict[str, object], available: int, workers: int
) -> None:
    assert placed(None, wanted, worker, available=Available(count=available)).workers == workers


@pytest.mark.parametrize(
    ("workers", "wanted", "worker", "available", "field", "message"),
    [
        (0, None, {}, 2, "workers", "--workers is 0; accepted: 1 or more"),
        (3, None, {}, 2, "workers", "--workers is 3, with 1 GPU each, but this machine has 2 GPUs; accepted: 1 to 2"),
        (2, 2, {}, 3, "workers", "with 2 GPUs each, but this machine has 3 GPUs; accepted: 1 to 1"),
        (2, None, RANKS, 3, "workers", "with 2 GPUs each"),
        (1, 1, {}, 0, "gpus_per_worker", "--gpus-per-worker is 1, but this machine has 0 GPUs"),
        (1, None, RANKS, 1, "gpus_per_worker", "tensor_parallel is 2, but this machine has 1 GPU;"),
        (1, 1, RANKS, 8, "gpus_per_worker", "tensor_parallel is 2; set one of them"),
        (1, -1, {}, 8, "gpus_per_worker", "accepted: 0 or more"),
    ],
)
def test_too_few_gpus_and_contradictions_are_refused(
    workers: int, wanted: int | None, worker: dict[str, object], available: int, field: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as refusal:
        placed(workers, wanted, worker, available=Available(count=available))
    assert refusal.value.field == field


def test_an_engine_uses_all_gpus_of_its_worker() -> None:
    assert flattened(with_ranks({"drain_s": 1}, 4)) == {"drain_s": 1, TENSOR_PARALLEL: 4}
    assert with_ranks(RANKS, 2) == RANKS
    assert with_ranks({}, 1) == with_ranks({}, 0) == {}


def test_certificates_of_a_run_are_complete_or_the_missing_file_is_named(tmp_path: Path) -> None:
    check_certificates(None)
    assert certificate_of(None, "gateway") is None
    authority = Authority(tmp_path)
    for component in COMPONENTS:
        issued = authority.issue(component)
        assert certificate_of(tmp_path, component) == issued
    check_certificates(tmp_path)
    (tmp_path / "tuner" / "tls.key").unlink()
    with pytest.raises(ConfigError, match=r"tuner/tls\.key is missing") as refusal:
        check_certificates(tmp_path)
    assert refusal.value.field == "tls"
