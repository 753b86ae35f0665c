"""Configuration of every service: options, environment variables and files; `tlt up`; addresses."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from pydantic import BaseModel

from tests.fuzz import hostile, json_texts, yaml_texts
from tests.fuzz.files import accepted_or_refused, file_target
from tests.fuzz.target import HarmError, Subject, Target
from tlt_common.config.base import Frozen
from tlt_common.config.entry import GROUP, service_entry
from tlt_common.config.explain import keys
from tlt_common.config.loader import load
from tlt_common.errors import ConfigError
from tlt_common.rpc.addresses import require_free

_REQUIRED: Mapping[str, Mapping[str, str]] = {
    "worker": {"model": "/model"},
}
"""Keys without defaults."""


@cache
def _model(service: str) -> type[Frozen]:
    return service_entry(service).keys


def _values() -> SearchStrategy[str]:
    """Return values as options and variables have them."""
    as_json = json_texts.values().map(json.dumps)
    return st.one_of(hostile.texts(), as_json, hostile.integers().map(str), hostile.doubles().map(str))


def _settings(model: type[Frozen], separator: str) -> SearchStrategy[list[tuple[str, str]]]:
    known = [key.name for key in keys(model)]
    groups = sorted({name.rpartition(".")[0] for name in known if "." in name})
    name = st.one_of(
        st.sampled_from(known),
        st.sampled_from(known),
        st.sampled_from([*groups, "", ".", "listen.x", "x..y", "tls.key.x"]),
        st.tuples(st.sampled_from(known), st.sampled_from(("x", "", "0"))).map(".".join),
        st.text(alphabet="abc._0é=", max_size=8),
    )
    return st.lists(st.tuples(name.map(lambda one: one.replace(".", separator)), _values()), max_size=4)


def _is_sane(value: Any, where: str = "") -> None:
    """
    Check a configuration that was accepted.

    Raises:
        HarmError: It contains a number or path that no service can use.
    """
    if isinstance(value, float) and not math.isfinite(value):
        raise HarmError(f"{where} is accepted as {value}")
    if isinstance(value, str | Path) and "\x00" in str(value):
        raise HarmError(f"{where} is accepted with a NUL character")
    inner: Mapping[Any, Any] = {}
    if isinstance(value, BaseModel):
        inner = {name: getattr(value, name) for name in type(value).model_fields}
    elif isinstance(value, Mapping):
        inner = value
    elif isinstance(value, tuple | list):
        inner = dict(enumerate(value))
    for name, one in inner.items():
        _is_sane(one, f"{where}.{name}" if where else str(name))


def _loaded(
    service: str,
    *,
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    settings: Sequence[str] = (),
) -> None:
    required = [f"{key}={value}" for key, value in _REQUIRED.get(service, {}).items()]
    _is_sane(load(_model(service), service, file=file, environment=environment or {}, settings=[*required, *settings]))


@contextmanager
def _options(service: str, _directory: Path) -> Iterator[Subject]:
    def feed(pairs: list[tuple[str, str]]) -> None:
        settings = [f"{key}={value}" for key, value in pairs]
        accepted_or_refused(partial(_loaded, service, settings=settings), ConfigError)

    yield Subject(inputs=_settings(_model(service), "."), feed=feed)


@contextmanager
def _environment(service: str, _directory: Path) -> Iterator[Subject]:
    def feed(pairs: list[tuple[str, str]]) -> None:
        environment = {f"TLT_{service.upper()}_{key.upper()}": value for key, value in pairs}
        accepted_or_refused(partial(_loaded, service, environment=environment), ConfigError)

    yield Subject(inputs=_settings(_model(service), "__"), feed=feed)


def _file(service: str) -> Target:
    model = _model(service)
    valid = model.model_validate(_REQUIRED.get(service, {})).model_dump(mode="json")
    return file_target(
        f"configuration.{service}.file",
        yaml_texts.texts(valid),
        lambda path: _loaded(service, file=path),
        file="config.yaml",
        refusals=ConfigError,
        weight=0.25,
    )


def _stack() -> Target:
    from tlt_local.configuration.file import stack_config

    valid: dict[str, Any] = {
        "model": "/model",
        "workers": 2,
        "worker": {"engine": {"dtype": "float32"}},
        "gateway": {"max_queued": 10},
    }
    return file_target(
        "configuration.up",
        yaml_texts.texts(valid),
        lambda path: stack_config(path, {}, ()),
        file="up.yaml",
        refusals=ConfigError,
    )


@contextmanager
def _addresses(_directory: Path) -> Iterator[Subject]:
    address = st.one_of(
        hostile.texts(),
        st.builds(lambda host, port: f"{host}:{port}", hostile.texts(), hostile.integers()),
        st.integers(-1, 2**17).map(lambda port: f"127.0.0.1:{port}"),
    )

    def feed(text: str) -> None:
        accepted_or_refused(partial(require_free, text, named="listen"), ConfigError)

    yield Subject(inputs=address, feed=feed)


def _targets() -> Iterator[Target]:
    for service in sorted(entry.name for entry in entry_points(group=GROUP)):
        yield Target(name=f"configuration.{service}.set", open=partial(_options, service), weight=0.5)
        yield Target(name=f"configuration.{service}.environment", open=partial(_environment, service), weight=0.5)
        yield _file(service)
    yield _stack()
    yield Target(name="configuration.addresses", open=_addresses, weight=0.5)


TARGETS = tuple(_targets())
