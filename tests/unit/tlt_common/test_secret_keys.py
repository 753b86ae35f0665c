"""The URL of a Redis is a secret wherever a configuration is read, checked, printed or refused."""

import traceback
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from tlt_cache.config import CacheConfig
from tlt_common.config.explain import explain
from tlt_common.config.loader import load
from tlt_common.config.redis_url import connection_options, shown_redis_url
from tlt_common.errors import ConfigError
from tlt_tuner.config import TunerConfig

SECRET = "hunter2-is-secret"  # noqa: S105 - not one
URL = f"rediss://:{SECRET}@redis.internal:6379/0"
SERVICES: tuple[tuple[str, type[CacheConfig | TunerConfig]], ...] = (("cache", CacheConfig), ("tuner", TunerConfig))


@pytest.mark.parametrize(("name", "model"), SERVICES)
def test_a_url_from_file_or_environment_is_kept_and_never_shown(name: str, model: Any, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(f"redis: '{URL}'\n")
    for given in (
        load(model, name, file=file, environment={}, settings=[]),
        load(model, name, file=None, environment={f"TLT_{name.upper()}_REDIS": URL}, settings=[]),
    ):
        assert given.redis.get_secret_value() == URL
        assert SECRET not in f"{given} {given!r} {given.model_dump()} {given.model_dump_json()}"
        assert shown_redis_url(given.redis) == "rediss://redis.internal:6379"


@pytest.mark.parametrize(("name", "model"), SERVICES)
def test_a_password_on_a_command_line_is_refused_without_repeating_it(name: str, model: Any) -> None:
    with pytest.raises(ConfigError, match=f"TLT_{name.upper()}_REDIS") as refusal:
        load(model, name, file=None, environment={}, settings=[f"redis={URL}"])
    assert SECRET not in "".join(traceback.format_exception(refusal.value))
    open_url = load(model, name, file=None, environment={}, settings=["redis=redis://host:1"])
    assert open_url.redis.get_secret_value() == "redis://host:1"


@pytest.mark.parametrize("url", [f"http://:{SECRET}@h", SECRET, f"redis://:a#{SECRET}@h:1", f"redis://h:{SECRET}"])
@pytest.mark.parametrize(("name", "model"), SERVICES)
def test_a_refusal_does_not_repeat_the_url(name: str, model: Any, url: str) -> None:
    with pytest.raises(ConfigError, match=r"redis: .*accepted: ") as refusal:
        load(model, name, file=None, environment={f"TLT_{name.upper()}_REDIS": url}, settings=[])
    assert SECRET not in "".join(traceback.format_exception(refusal.value))


def test_a_refusal_of_another_key_shows_its_value_and_no_secret() -> None:
    environment = {"TLT_CACHE_REDIS": URL, "TLT_CACHE_BUDGET_BYTES": "-1"}
    with pytest.raises(ConfigError, match="budget_bytes is -1") as refusal:
        load(CacheConfig, "cache", file=None, environment=environment, settings=[])
    assert SECRET not in "".join(traceback.format_exception(refusal.value))


@pytest.mark.parametrize(("model", "default"), [(CacheConfig, "embedded"), (TunerConfig, "memory")])
def test_the_default_is_no_secret(model: Any, default: str) -> None:
    assert any(line.startswith("redis: ") and f'= "{default}"' in line for line in explain(model))


def test_only_rediss_is_given_a_ca() -> None:
    assert connection_options("redis://h", Path("/ca")) == {}
    assert connection_options("rediss://h", Path("/ca"))["ssl_ca_certs"] == "/ca"
    assert "ssl_ca_certs" not in connection_options("rediss://h", None)
    assert shown_redis_url(SecretStr("unix:///run/redis.sock")) == "unix:///run/redis.sock"
