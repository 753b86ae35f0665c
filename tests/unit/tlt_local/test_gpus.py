from pathlib import Path

import pytest

from tests.fakes.authority import Authority
from tlt_common.errors import ConfigError
from tlt_local.certificates import COMPONENTS, certificate_of, check_certificates
from tlt_local.gpus import TENSOR_PARALLEL, gpus_each, with_ranks
from tlt_local.settings import flattened, settings_of

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
    assert gpus_each(workers, wanted, worker, available=available) == each


@pytest.mark.parametrize(
    ("workers", "wanted", "worker", "available", "message"),
    [
        (3, None, {}, 2, "3 workers with 1 GPUs each need 3 GPUs, and this machine has 2"),
        (2, 2, {}, 3, "need 4 GPUs"),
        (1, 1, {}, 0, "this machine has 0"),
        (2, None, RANKS, 3, "need 4 GPUs"),
        (1, 1, RANKS, 8, "tensor_parallel is 2; set one of them"),
        (1, -1, {}, 8, "accepted: 0 or more"),
    ],
)
def test_too_few_gpus_and_contradictions_are_refused(
    workers: int, wanted: int | None, worker: dict[str, object], available: int, message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as refusal:
        gpus_each(workers, wanted, worker, available=available)
    assert refusal.value.field == "gpus_per_worker"


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
