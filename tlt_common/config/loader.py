"""Where a configuration comes from: defaults, then a file, then the environment, then `--set`."""

import copy
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, JsonValue, ValidationError

from tlt_common.config.base import Frozen, model_in
from tlt_common.errors import ConfigError

C = TypeVar("C", bound=Frozen)


def load(model: type[C], name: str, *, file: Path | None, environment: Mapping[str, str], settings: Sequence[str]) -> C:
    """
    Build the configuration of service `name`.

    A file (YAML or JSON) holds the keys of the model. The environment gives `TLT_<NAME>_<KEY>`, nested keys joined
    by two underscores; `settings` are `key=value`, nested keys joined by dots. Values are read as YAML where the key
    does not want plain text.

    Raises:
        ConfigError: A key is unknown or its value is not accepted; names the key and what is accepted.
    """
    return resolve(model, name, _from_file(file) if file else {}, environment=environment, settings=settings)


def resolve(
    model: type[C],
    name: str,
    given: Mapping[str, Any],
    *,
    environment: Mapping[str, str],
    settings: Sequence[str] = (),
) -> C:
    """
    As `load`, from values instead of a file.

    Raises:
        ConfigError: A key is unknown or its value is not accepted; names the key and what is accepted.
    """
    values = copy.deepcopy(dict(given))
    prefix = f"TLT_{name.upper()}_"
    for variable, text in sorted(environment.items()):
        if variable.startswith(prefix):
            _put(values, variable.removeprefix(prefix).lower().split("__"), text, model, f"${variable}")
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals:
            raise ConfigError(f"--set {setting}: accepted: key=value", field=key)
        _put(values, key.split("."), text, model, f"--set {key}")
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise _explained(error, model, name) from error


def _from_file(file: Path) -> dict[str, Any]:
    try:
        values = yaml.safe_load(file.read_text())
    except OSError as error:
        raise ConfigError(f"--config {file}: {error.strerror}", field="config") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"--config {file} is not YAML: {str(error).splitlines()[0]}", field="config") from error
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError(f"--config {file} holds a {type(values).__name__}; accepted: keys and values", field="config")
    return values


def _put(values: dict[str, Any], keys: list[str], text: str, model: type[BaseModel], origin: str) -> None:
    *parents, last = keys
    inner: type[BaseModel] | None = model
    for key in parents:
        field = inner.model_fields.get(key) if inner else None
        inner = model_in(field.annotation) if field else None
        values = values.setdefault(key, {})
        if not isinstance(values, dict):
            raise ConfigError(f"{origin}: {key} is a single value", field=".".join(keys))
    field = inner.model_fields.get(last) if inner else None
    values[last] = text if field is not None and field.annotation is str else _parsed(text)


def _parsed(text: str) -> JsonValue:
    try:
        value: JsonValue = json.loads(text)
    except ValueError:
        return {"null": None, "none": None}.get(text.lower(), text)
    return value


def _explained(error: ValidationError, model: type[BaseModel], name: str) -> ConfigError:
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return ConfigError(f"{name}: unknown key {key!r}; accepted: {', '.join(model.model_fields)}", field=key)
    given = "" if first["type"] == "missing" else f" is {first['input']!r}"
    return ConfigError(f"{name}: {key}{given}: {first['msg']}", field=key)
