import json
import os
import shutil
import socket
from pathlib import Path

import pytest

from countdown.model import CHECKPOINT
from countdown.settings import DRAFTER
from tlt_common.errors import ConfigError
from tlt_local.configuration.config import StackConfig, check


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return Path(shutil.copytree(CHECKPOINT, tmp_path / "model"))


def test_what_listens_must_answer_as_redis_does(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tlt_local.configuration.config.REDIS_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(ConfigError, match=f"127.0.0.1:{port} does not answer as Redis does") as refusal:
            check(StackConfig(model=model, redis=f"redis://127.0.0.1:{port}"))
    assert refusal.value.field == "redis"


@pytest.mark.parametrize(
    ("engine", "field"),
    [({"max_total_tokens": 10}, "engine.arms"), ({"context_length": 100_000}, "engine.context_length")],
)
def test_an_engine_that_does_not_fit_is_refused_before_anything_starts(
    model: Path, engine: dict[str, int], field: str
) -> None:
    with pytest.raises(ConfigError) as refusal:
        check(StackConfig(model=model, settings={"worker": {"engine": engine}}))
    assert refusal.value.field == field


def test_a_drafter_is_a_directory_or_a_url_that_workers_read(model: Path) -> None:
    here = os.path.relpath(DRAFTER)
    config = StackConfig(model=model, drafter=here)
    check(config)
    assert config.drafter_uri == str(DRAFTER)
    remote = StackConfig(model=model, drafter="s3://bucket/drafter")
    check(remote)
    assert remote.drafter_uri == "s3://bucket/drafter"


@pytest.mark.parametrize(
    ("settings", "field", "message"),
    [
        ({"workers": 0}, "workers", "1 or more"),
        ({"cores_per_worker": 0}, "cores_per_worker", "accepted: 1 to"),
        ({"cores_per_worker": 10_000}, "cores_per_worker", "accepted: 1 to"),
        ({"redis": "localhost"}, "redis", "embedded, or redis"),
        ({"redis": "redis://127.0.0.1:1"}, "redis", "no server listens on 127.0.0.1:1"),
        ({"port": -1}, "port", "0 to"),
        ({"port": 70_000}, "port", "0 to"),
        ({"drafter": Path("/nowhere")}, "drafter", "config.json of a drafter"),
        ({"model": Path("/nowhere")}, "model", "not a directory"),
    ],
)
def test_each_wrong_option_is_named_with_what_is_accepted(
    model: Path, settings: dict[str, object], field: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as refusal:
        check(StackConfig(**{"model": model, **settings}))
    assert refusal.value.field == field
    assert "\n" not in refusal.value.message


def test_a_directory_that_is_no_checkpoint_says_what_is_missing(model: Path) -> None:
    (model / "model.safetensors").unlink()
    with pytest.raises(ConfigError, match=r"no \*\.safetensors"):
        check(StackConfig(model=model))
    (model / "config.json").write_text("{")
    with pytest.raises(ConfigError, match=r"config\.json is not readable"):
        check(StackConfig(model=model))
    (model / "config.json").unlink()
    with pytest.raises(ConfigError, match=r"config\.json is not readable: .*No such file"):
        check(StackConfig(model=model))


def test_a_model_that_no_engine_runs_is_refused_before_anything_starts(model: Path) -> None:
    changed(model / "config.json", quantization_config={"quant_method": "awq"})
    with pytest.raises(ConfigError, match=r"it is quantized \(awq\)"):
        check(StackConfig(model=model))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"architectures": ["LlamaForCausalLMEagle3"]}, "only 4 layers"),
        ({"hidden_size": 8}, "hidden_size is 8; accepted: 256, as in its target"),
        ({"intermediate_size": 8}, "shape"),
    ],
)
def test_a_drafter_that_does_not_fit_is_refused_before_anything_starts(
    model: Path, tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    drafter = Path(shutil.copytree(DRAFTER, tmp_path / "drafter"))
    changed(drafter / "config.json", **changes)
    with pytest.raises(ConfigError, match=message) as refusal:
        check(StackConfig(model=model, drafter=drafter))
    assert refusal.value.field == "drafter"


def changed(path: Path, **values: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


@pytest.mark.parametrize("above", [0, 1, 2])
def test_a_port_that_is_taken_is_named(model: Path, above: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        # The machine's other programs may have one below it.
        named = "|".join(str(taken - below) for below in range(above + 1))
        with pytest.raises(
            ConfigError, match=f"127.0.0.1:({named}) cannot be bound: Address already in use; choose another or port 0"
        ):
            check(StackConfig(model=model, port=taken - above))


def test_all_cores_may_be_one_workers(model: Path) -> None:
    check(StackConfig(model=model, workers=1, cores_per_worker=len(os.sched_getaffinity(0))))
