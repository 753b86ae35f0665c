from pathlib import Path

import pytest
from pydantic import ValidationError

from tlt_common.config.base import TlsSettings
from tlt_common.config.loader import load, resolve
from tlt_common.domain.arm import DEFAULT_ARMS, OFF, arms_named, chain, ngram
from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_common.errors import ConfigError
from tlt_trainer.config import TrainerConfig
from tlt_worker.config import WorkerConfig
from tlt_worker.engine_config import CUDA_ARMS, EngineConfig
from tlt_worker.experiment import Experiment
from tlt_worker.lending.trainer import settings_of
from tlt_worker.placement.local import FleetSpec

MODEL = Path("/model")


@pytest.mark.parametrize("name", ["", "chain-17", "tree-3x2-99"])
def test_an_arm_nobody_knows_is_refused(name: str) -> None:
    with pytest.raises(ValidationError, match="accepted"):
        EngineConfig(arms=("off", name))


@pytest.mark.parametrize(
    ("names", "why"), [((), "the list of arms is empty"), (("chain-3", "off", "chain-03"), "listed twice")]
)
def test_a_list_without_arms_or_with_one_twice_is_refused(names: tuple[str, ...], why: str) -> None:
    with pytest.raises(ValidationError, match=f"arms\\n.*{why}.*(accepted|once)"):
        EngineConfig(arms=names)


def test_a_drafter_comes_from_the_coordinator_or_from_the_configuration_not_both() -> None:
    assert WorkerConfig(model=MODEL, engine=EngineConfig(drafter=Path("/d"))).engine.drafter
    with pytest.raises(ValidationError, match="publish the drafter to the coordinator"):
        WorkerConfig(model=MODEL, engine=EngineConfig(drafter=Path("/d")), coordinator="127.0.0.1:1")


def test_trainers_train_what_their_engine_runs() -> None:
    engine = {"drafter_architecture": "eagle3", "draft_vocabulary": 40, "drafter_layers": "0, 2"}
    config = WorkerConfig.model_validate({"model": MODEL, "engine": engine, "coordinator": "127.0.0.1:1"})
    for settings, expected in (
        (settings_of(config, Path("/run")), (DrafterArchitecture.EAGLE3, 40, (0, 2))),
        (settings_of(WorkerConfig(model=MODEL), Path("/run")), (DrafterArchitecture.EAGLE, None, None)),
    ):
        options = [f"{key}={value}" for key, value in settings.items()]
        trainer = load(TrainerConfig, "trainer", file=None, environment={}, settings=options)
        assert (trainer.drafter_architecture, trainer.draft_vocabulary, trainer.drafter_layers) == expected
    public = EngineConfig(drafter_format=Path("/public"))
    assert settings_of(WorkerConfig(model=MODEL, engine=public), Path("/run"))["drafter_format"] == "/public"
    with pytest.raises(ValidationError, match="drafter_architecture"):
        WorkerConfig.model_validate({"model": MODEL, "engine": {"drafter_architecture": "eagle2"}})


def test_arms_may_be_one_text_with_commas() -> None:
    config = load(WorkerConfig, "worker", file=None, environment={"TLT_WORKER_ENGINE__ARMS": "off, chain-3,"},
                  settings=["model=/m", "engine.dtype=float32"])  # fmt: skip
    assert (config.engine.arms, config.engine.dtype) == (("off", "chain-3"), "float32")


def test_a_device_has_arms_of_its_own_where_none_are_named() -> None:
    unnamed = EngineConfig()
    assert unnamed.arms_on("cpu") == (*DEFAULT_ARMS, chain(15), ngram(5))
    assert unnamed.arms_on("cuda") == CUDA_ARMS == arms_named([arm.name for arm in CUDA_ARMS])
    assert sorted(arm.draft_tokens for arm in CUDA_ARMS if arm != ngram(5)) == [1, 4, 8, 16, 32, 64]
    assert EngineConfig(arms=("off",)).arms_on("cuda") == (OFF,)


def test_no_user_can_configure_what_only_experiments_change() -> None:
    assert not Experiment.model_fields.keys() & EngineConfig.model_fields.keys()


def test_an_unknown_key_of_the_engine_is_refused_with_the_engines_keys() -> None:
    with pytest.raises(ConfigError, match=r"unknown key 'engine\.speed'; accepted: dtype, max_running") as refused:
        load(WorkerConfig, "worker", file=None, environment={}, settings=["model=/m", "engine.speed=9"])
    assert refused.value.field == "engine.speed"


def spec(**worker: object) -> FleetSpec:
    return FleetSpec(
        worker={"model": "/model", **worker}, replicas=2, directory=Path("/run/x"), logs=Path("/run/x/logs")
    )


def test_replicas_share_settings_but_not_cores_sockets_or_names() -> None:
    one, two = (spec(**{"engine.max_running": "8"}).config(rank, frozenset(range(4))) for rank in range(2))
    assert (one.worker_id, two.worker_id) == ("worker-0", "worker-1")
    assert (one.cores, two.cores) == ((0, 1), (2, 3))
    assert one.run_dir != two.run_dir
    assert one.engine.max_running == two.engine.max_running == 8
    assert one.engine.threads == 2


def test_a_setting_no_worker_knows_names_itself() -> None:
    with pytest.raises(ConfigError, match=r"worker\.speed") as refusal:
        spec(speed=9).config(0, frozenset({0}))
    assert refusal.value.field == "worker.speed"


def trainer_of(**worker: object) -> dict[str, str]:
    config = WorkerConfig.model_validate({"model": MODEL, "listen": "0.0.0.0:7705", **worker})
    return settings_of(config, Path("/run/x"))


@pytest.mark.parametrize(("worker", "expected"), [(9090, "9091"), (0, "0"), (None, None)])
def test_a_trainers_metrics_are_next_to_its_workers(worker: int | None, expected: str | None) -> None:
    assert trainer_of(metrics_port=worker).get("metrics_port") == expected


def test_they_can_be_read_from_where_the_workers_can_and_calls_stay_inside() -> None:
    told = trainer_of(metrics_port=9090, port_file="/run/x/addresses/worker-0.json")
    assert told["metrics_host"] == "0.0.0.0"
    assert "listen" not in told
    assert told["port_file"] == "/run/x/addresses/worker-0-trainer.json"


def test_what_all_trainers_are_told_leaves_the_workers_own_settings_for_them() -> None:
    fleet = spec(trainer={"enabled": False}).model_copy(update={"trainer": {"nice": 2}})
    config = fleet.config(0, frozenset({0}))
    assert (config.trainer.enabled, config.trainer.settings) == (False, {"nice": 2})


@pytest.mark.parametrize(
    ("settings", "why"),
    [({"socket": "/s"}, "unknown key 'socket'"), ({"publish.gain": -1}, "publish.gain is -1"), ({"step": 1}, "'step'")],
)
def test_what_no_trainer_accepts_is_refused_by_its_worker(settings: dict[str, object], why: str) -> None:
    """Otherwise each start of the trainer would fail."""
    with pytest.raises(ConfigError, match=f"trainer.settings.*{why}") as refusal:
        resolve(WorkerConfig, "worker", {"model": "/m", "trainer": {"settings": settings}}, environment={})
    assert refusal.value.field == "trainer.settings"


def test_a_trainer_shows_its_workers_certificate() -> None:
    files = {"certificate": "/tls/tls.crt", "key": "/tls/tls.key", "ca": "/tls/ca.crt"}
    told = [f"{key}={value}" for key, value in trainer_of(tls=files).items()]
    config = load(TrainerConfig, "trainer", file=None, environment={}, settings=told)
    assert config.tls == TlsSettings.model_validate(files)
    assert not any(key.startswith("tls") for key in trainer_of())


def test_each_worker_traces_its_rounds_to_a_file_of_its_own() -> None:
    engine = EngineConfig(trace=Path("/traces/rounds.jsonl"))
    assert engine.at_worker("worker-0").trace == Path("/traces/rounds-worker-0.jsonl")
    assert engine.at_worker("worker-1").trace == Path("/traces/rounds-worker-1.jsonl")
    assert engine.at_worker("rack/7").trace == Path("/traces/rounds-rack%2F7.jsonl")
    assert EngineConfig(trace=Path("/traces/rounds")).at_worker("w").trace == Path("/traces/rounds-w")
    for unnamed in (EngineConfig(), EngineConfig(trace=Path("/"))):
        assert unnamed.at_worker("worker-0") == unnamed
