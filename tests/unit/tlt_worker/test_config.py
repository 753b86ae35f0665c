from pathlib import Path

import pytest
from pydantic import ValidationError

from tlt_common.config.base import TlsSettings
from tlt_common.config.loader import load
from tlt_common.errors import ConfigError
from tlt_trainer.config import TrainerConfig
from tlt_worker.beside import settings_of
from tlt_worker.config import WorkerConfig
from tlt_worker.fleet import FleetSpec

MODEL = Path("/model")


@pytest.mark.parametrize("name", ["", "chain-17", "tree-3x2-99"])
def test_an_arm_nobody_knows_is_refused(name: str) -> None:
    with pytest.raises(ValidationError, match="accepted"):
        WorkerConfig(model=MODEL, arms=("off", name))


@pytest.mark.parametrize(("names", "why"), [((), "no arm is named"), (("chain-3", "off", "chain-03"), "named twice")])
def test_a_list_without_arms_or_with_one_twice_is_refused(names: tuple[str, ...], why: str) -> None:
    with pytest.raises(ValidationError, match=f"arms\\n.*{why}.*accepted"):
        WorkerConfig(model=MODEL, arms=names)


def test_a_drafter_comes_from_the_coordinator_or_from_the_configuration_not_both() -> None:
    assert WorkerConfig(model=MODEL, drafter=Path("/d")).drafter
    with pytest.raises(ValidationError, match="publish it to the coordinator"):
        WorkerConfig(model=MODEL, drafter=Path("/d"), coordinator="127.0.0.1:1")


def test_trainers_are_not_lent_devices_whose_drafters_they_cannot_make() -> None:
    told = {"model": MODEL, "drafter_kind": "eagle3"}
    assert WorkerConfig.model_validate(told).trainer.enabled  # without a coordinator none is started
    with pytest.raises(ValidationError, match=r"set trainer\.enabled to false"):
        WorkerConfig.model_validate({**told, "coordinator": "127.0.0.1:1"})
    WorkerConfig.model_validate({**told, "coordinator": "127.0.0.1:1", "trainer": {"enabled": False}})
    with pytest.raises(ValidationError, match="drafter_kind"):
        WorkerConfig.model_validate({**told, "drafter_kind": "eagle2"})


def spec(**worker: object) -> FleetSpec:
    return FleetSpec(
        worker={"model": "/model", **worker}, replicas=2, directory=Path("/run/x"), logs=Path("/run/x/logs")
    )


def test_replicas_share_settings_but_not_cores_sockets_or_names() -> None:
    one, two = (spec(max_running="8").config(rank, frozenset(range(4))) for rank in range(2))
    assert (one.worker_id, two.worker_id) == ("worker-0", "worker-1")
    assert (one.cores, two.cores) == ((0, 1), (2, 3))
    assert one.run_dir != two.run_dir
    assert one.max_running == two.max_running == 8


def test_a_setting_no_worker_knows_names_itself() -> None:
    with pytest.raises(ConfigError, match=r"worker\.speed") as refusal:
        spec(speed=9).config(0, frozenset({0}))
    assert refusal.value.field == "worker.speed"


def trainer_of(**worker: object) -> dict[str, str]:
    config = WorkerConfig.model_validate({"model": MODEL, "listen": "0.0.0.0:7705", **worker})
    return settings_of(config, Path("/run/x"))


@pytest.mark.parametrize(
    ("worker", "trainer", "expected"),
    [(9090, None, "9091"), (0, None, "0"), (None, None, None), (9090, 9400, "9400"), (None, 9400, "9400")],
)
def test_a_trainers_metrics_are_next_to_its_workers(
    worker: int | None, trainer: int | None, expected: str | None
) -> None:
    told = trainer_of(metrics_port=worker, trainer={"metrics_port": trainer})
    assert told.get("metrics_port") == expected


def test_they_can_be_read_from_where_the_workers_can_and_calls_stay_inside() -> None:
    told = trainer_of(metrics_port=9090, port_file="/run/x/addresses/worker-0.json")
    assert told["metrics_host"] == "0.0.0.0"
    assert "listen" not in told
    assert told["port_file"] == "/run/x/addresses/worker-0-trainer.json"


def test_what_all_trainers_are_told_leaves_the_workers_own_settings_for_them() -> None:
    fleet = spec(trainer={"metrics_port": 9400}).model_copy(update={"trainer": {"threads": 2}})
    config = fleet.config(0, frozenset({0}))
    assert (config.trainer.metrics_port, config.trainer.settings) == (9400, {"threads": 2})


def test_a_trainer_shows_its_workers_certificate() -> None:
    files = {"certificate": "/tls/tls.crt", "key": "/tls/tls.key", "ca": "/tls/ca.crt"}
    told = [f"{key}={value}" for key, value in trainer_of(tls=files).items()]
    config = load(TrainerConfig, "trainer", file=None, environment={}, settings=told)
    assert config.tls == TlsSettings.model_validate(files)
    assert not any(key.startswith("tls") for key in trainer_of())
