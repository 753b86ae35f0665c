"""`--config FILE` and `--set`: what is passed on, and what is refused by name."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from tlt_common.config.base import model_in
from tlt_common.config.entry import service_entry
from tlt_common.config.loader import resolve
from tlt_common.errors import ConfigError
from tlt_gateway.config import GatewayConfig
from tlt_local.addresses import PORT
from tlt_local.configuration.file import UpFile, stack_config
from tlt_local.configuration.settings import DECIDED, SERVICES, flattened, settings_of, spelled


def file(tmp_path: Path, values: dict[str, Any]) -> Path:
    path = tmp_path / "up.yaml"
    path.write_text(yaml.safe_dump(values))
    return path


def test_options_override_the_file_and_only_what_was_set_is_passed_on() -> None:
    sections: dict[str, dict[str, Any]] = {
        "gateway": {"max_queued": 5, "worker_wait_s": 2.0},
        "coordinator": {"spot": {"max_trainers": 2}},
    }
    options = ("gateway.max_queued=7", "coordinator.lending=false", "trainer.publish.gain=0.5")
    assert settings_of(sections, options) == {
        "gateway": {"max_queued": 7, "worker_wait_s": 2.0},
        "coordinator": {"spot": {"max_trainers": 2}, "lending": False},
        "trainer": {"publish": {"gain": 0.5}},
    }


def test_a_service_reads_back_what_it_is_passed() -> None:
    settings = settings_of({"gateway": {"tokens": "/a b.yaml"}}, ('gateway.workers=["h:1", "h:2"]',))
    told = [f"{key}={value}" for key, value in spelled(settings["gateway"]).items()]
    config = resolve(GatewayConfig, "gateway", {}, environment={}, settings=told)
    assert (config.tokens, config.workers) == (Path("/a b.yaml"), ("h:1", "h:2"))


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("engine.x=1", "one of gateway, worker, cache, trainer, tuner, coordinator"),
        ("worker", "SERVICE.KEY=VALUE"),
        ("worker.drain_s", "SERVICE.KEY=VALUE"),
        ("gateway.max_queue=9", "gateway: unknown key 'max_queue'; accepted: .*max_queued"),
        ("gateway.max_queued=-1", "gateway: max_queued is -1"),
        ("trainer.publish.gian=1", "trainer: unknown key 'publish.gian'"),
        ("gateway.listen=h:1", "gateway.listen cannot be set: use --port"),
        ("gateway.tls.ca=/x", "gateway.tls.ca cannot be set: use --tls"),
        ("worker.model=/x", "worker.model cannot be set: use --model"),
        ("worker.coordinator=h:1", "worker.coordinator cannot be set: `tlt up` sets it"),
        ("worker.trainer.settings.nice=1", "use trainer.KEY"),
        ("trainer.drafter_dir=s3://runs", "trainer: unknown key 'drafter_dir'; accepted: nice"),
        ("cache.redis=memory", "use --redis"),
    ],
)
def test_what_cannot_be_set_is_named_with_what_is_accepted(option: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        settings_of({}, (option,))


def test_drafters_and_checkpoints_may_be_kept_in_an_object_store() -> None:
    options = ("worker.drafter_dir=s3://runs/drafters", "worker.checkpoint_dir=s3://runs/checkpoints")
    expected = {"drafter_dir": "s3://runs/drafters", "checkpoint_dir": "s3://runs/checkpoints"}
    assert settings_of({}, options) == {"worker": expected}


def test_the_file_is_refused_alike() -> None:
    with pytest.raises(ConfigError, match=r"coordinator\.state_dir cannot be set: use --run-dir"):
        settings_of({"coordinator": {"state_dir": "/x"}}, ())


@pytest.mark.parametrize("name", SERVICES)
def test_each_key_that_a_run_decides_exists(name: str) -> None:
    """A renamed key of a service must not slip past the refusal."""
    for key in DECIDED[name]:
        *blocks, last = key.split(".")
        model: type[BaseModel] | None = service_entry(name).model
        for block in blocks:
            assert model is not None
            model = model_in(model.model_fields[block].annotation)
        assert model is not None
        assert last in model.model_fields


@given(st.dictionaries(st.from_regex(r"[a-z]{1,5}", fullmatch=True), st.integers() | st.just({}), max_size=4))
def test_flattening_keeps_every_value(values: dict[str, Any]) -> None:
    assert flattened({"a": values} if values else {"a": 1}) == (
        {f"a.{key}": value for key, value in values.items()} if values else {"a": 1}
    )


def test_the_file_holds_the_options_of_the_run_and_sections(tmp_path: Path) -> None:
    path = file(tmp_path, {"model": "/m", "workers": 3, "run_dir": "/r", "worker": {"drain_s": 2}})
    config = stack_config(path, {"workers": 4, "port": None}, ("worker.spool_bytes=1024",))
    assert (config.model, config.workers, config.run_dir, config.port) == (Path("/m"), 4, Path("/r"), PORT)
    assert config.settings == {"worker": {"drain_s": 2.0, "spool_bytes": 1024}}


def test_the_file_may_be_json(tmp_path: Path) -> None:
    path = tmp_path / "up.json"
    path.write_text(json.dumps({"model": "/m", "port": 0}))
    assert stack_config(path, {}, ()).port == 0


def test_a_run_without_a_model_is_refused() -> None:
    with pytest.raises(ConfigError, match="no model; give --model DIR") as refusal:
        stack_config(None, {"model": None}, ())
    assert refusal.value.field == "model"


def test_an_unknown_key_of_the_file_is_named_with_all_that_are_known(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="up: unknown key 'wokers'") as refusal:
        stack_config(file(tmp_path, {"wokers": 3}), {}, ())
    assert all(key in refusal.value.message for key in UpFile.model_fields)
