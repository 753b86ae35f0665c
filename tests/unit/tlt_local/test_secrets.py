"""`tlt up` hands a Redis' password to its services by environment, never by command line."""

from pathlib import Path

import pytest

from tlt_common.errors import ConfigError
from tlt_local.configuration.config import StackConfig
from tlt_local.configuration.file import stack_config
from tlt_local.stack import Stack
from tlt_local.supervision.home import Home

SECRET = "hunter2-is-secret"  # noqa: S105 - not one
URL = f"redis://:{SECRET}@redis.internal:6379/0"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(directory=tmp_path, data=tmp_path / "data", token="t", leave=lambda: None)  # noqa: S106


@pytest.mark.parametrize("name", ["cache", "tuner", "coordinator", "gateway"])
def test_services_get_the_url_by_environment(name: str, home: Home, tmp_path: Path) -> None:
    stack = Stack(StackConfig(model=tmp_path, redis=URL))
    assert SECRET not in " ".join(stack._service(name, home)({}))
    given = stack._secrets(name, home)
    assert given == ({f"TLT_{name.upper()}_REDIS": URL} if name in {"cache", "tuner"} else {})


def test_a_password_is_accepted_in_the_file_and_refused_as_an_option(tmp_path: Path) -> None:
    file = tmp_path / "up.yaml"
    file.write_text(f"model: {tmp_path}\nredis: '{URL}'\n")
    config = stack_config(file, {}, ())
    assert config.redis.get_secret_value() == URL
    assert SECRET not in repr(config)
    with pytest.raises(ConfigError, match="--redis contains a password") as refusal:
        stack_config(file, {"redis": URL}, ())
    assert SECRET not in refusal.value.message
