"""Where a configuration comes from, and how it says no."""

from pathlib import Path

import pytest
from pydantic import Field, model_validator

from tlt_common.config.base import Frozen, ServiceConfig
from tlt_common.config.explain import explain
from tlt_common.config.loader import load
from tlt_common.errors import ConfigError


class Inner(Frozen):
    """Nested."""

    size: int = Field(1, ge=1)
    """How large."""
    label: str = ""
    """Text."""


class ExampleConfig(ServiceConfig):
    """An example."""

    name: str = "x"
    """What it is called."""
    inner: Inner = Inner()
    """Nested."""
    extra: Inner | None = None
    """Nested, or not there."""


class RatioConfig(ServiceConfig):
    """An example with keys that belong together."""

    name: str = "x"
    """What it is called."""
    ratio: float = 0.5
    """How much."""

    @model_validator(mode="after")
    def _match(self) -> "RatioConfig":
        if self.name == "two" and self.ratio == 1:
            raise ValueError("ratio and name do not match")
        return self


def loaded(*settings: str, file: Path | None = None, environment: dict[str, str] | None = None) -> ExampleConfig:
    return load(ExampleConfig, "example", file=file, environment=environment or {}, settings=settings)


def test_settings_beat_the_environment_which_beats_the_file(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("name: file\ninner: {size: 2}\nlog_level: debug\n")
    config = loaded("name=setting", file=file, environment={"TLT_EXAMPLE_NAME": "e", "TLT_EXAMPLE_INNER__SIZE": "3"})
    assert (config.name, config.inner.size, config.log_level) == ("setting", 3, "debug")


def test_a_key_of_an_optional_model_is_found_and_explained() -> None:
    assert loaded("extra.label=7").extra == Inner(label="7")
    assert loaded(environment={"TLT_EXAMPLE_EXTRA__LABEL": "7"}).extra == Inner(label="7")
    assert loaded().extra is None
    assert "extra.size: int = 1 (>= 1)" in explain(ExampleConfig)


@pytest.mark.parametrize("value", ["Infinity", "-Infinity", "NaN", "1e999"])
def test_a_number_that_is_not_finite_is_refused(value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(RatioConfig, "example", file=None, environment={}, settings=[f"ratio={value}"])
    assert caught.value.field == "ratio"


@pytest.mark.parametrize("content", [b"\x80", b"[[[[" * 500, b"name: a\nname: b", b'name: "\\0"', b'"": 1', b"1: 2"])
def test_a_file_that_cannot_be_used_is_refused_by_key(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        loaded(file=file)
    assert caught.value.field


def test_a_refusal_of_several_keys_names_the_first_and_quotes_no_others() -> None:
    with pytest.raises(ConfigError, match=r"^example: ratio and name do not match$") as caught:
        load(RatioConfig, "example", file=None, environment={}, settings=["name=two", "ratio=1"])
    assert caught.value.field == "ratio"


def test_a_long_value_is_not_quoted_in_full() -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(f"inner.size={'x' * 5000}")
    assert len(caught.value.message) < 500


def test_text_stays_text_even_if_it_looks_like_a_number() -> None:
    assert loaded("name=7").name == "7"


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("nope=1", "unknown key 'nope'; accepted: "),
        ("inner.nope=1", "unknown key 'inner.nope'"),
        ("inner.size=0", "inner.size is 0: Input should be greater than or equal to 1"),
        ("name", "accepted: key=value"),
        ("listen=nowhere", "listen is 'nowhere'"),
    ],
)
def test_what_is_wrong_is_named(setting: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(setting)
    assert said in str(caught.value)


def test_a_nul_character_is_refused_by_a_name_even_under_an_empty_key() -> None:
    for setting in ("name=a\x00b", "=\x00", "inner.=\x00"):
        with pytest.raises(ConfigError, match="contains a NUL character") as refused:
            loaded(setting)
        assert refused.value.field


def test_a_file_that_is_not_there_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        loaded(file=tmp_path / "none.yaml")


def test_every_key_is_explained() -> None:
    lines = list(explain(ExampleConfig))
    assert "inner.size: int = 1 (>= 1)" in lines
    assert "    How large." in lines
