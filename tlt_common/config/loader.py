"""Loads a configuration from defaults, file, environment and `--set`, in rising precedence."""

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, JsonValue, ValidationError

from tlt_common.config.base import Frozen, is_secret, model_in
from tlt_common.config.explain import keys
from tlt_common.documents import json_of, yaml_of
from tlt_common.errors import ConfigError
from tlt_common.redaction import redacted

C = TypeVar("C", bound=Frozen)

MAX_SHOWN = 200
"""Characters of a value that an error quotes."""


def load(model: type[C], name: str, *, file: Path | None, environment: Mapping[str, str], settings: Sequence[str]) -> C:
    """
    Build the configuration of service `name`.

    Args:
        model: Configuration model of the service.
        name: Name of the service.
        file: YAML or JSON file with keys of the model; None means no file.
        environment: Variables; TLT_<NAME>_<KEY> sets a key, two underscores separate nested keys.
        settings: key=value pairs; dots separate nested keys.

    Values of variables and settings are parsed as JSON unless the key is a string; other values are strings, and `none`
    means null.

    Raises:
        ConfigError: A key is unknown or its value is not accepted; the message names the key and what is accepted.
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
    Build the configuration as `load` does, from values instead of a file.

    Raises:
        ConfigError: A key is unknown or its value is not accepted; the message names the key and what is accepted.
    """
    values = copy.deepcopy(dict(given))
    prefix = f"TLT_{name.upper()}_"
    for variable, text in sorted(environment.items()):
        if variable.startswith(prefix):
            _put(values, variable.removeprefix(prefix).lower().split("__"), text, model, f"${variable}")
    for setting in settings:
        key, text = pair_of(setting)
        _refuse_password(key, text, model, name)
        _put(values, key.split("."), text, model, f"--set {key}")
    _refuse_nul(values, name)
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise _explained(error, model, name) from error


def pair_of(setting: str) -> tuple[str, str]:
    """
    Split an option of `--set` into key and text.

    Raises:
        ConfigError: It is not of the form key=value.
    """
    key, equals, text = setting.partition("=")
    if not equals:
        raise ConfigError(f"--set {setting}: accepted: key=value", field=key)
    return key, text


def _refuse_nul(value: object, key: str) -> None:
    """Refuse text with NUL, which no path, address or system name may contain."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            _refuse_nul(inner, str(name) or key)
    elif isinstance(value, list | tuple):
        for inner in value:
            _refuse_nul(inner, key)
    elif isinstance(value, str) and "\x00" in value:
        raise ConfigError(f"{key} contains a NUL character; accepted: text without it", field=key)


def nested(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Turn settings with dotted keys, such as `engine.dtype`, into nested mappings."""
    values: dict[str, Any] = {}
    for key, value in settings.items():
        *parents, last = key.split(".")
        block = values
        for parent in parents:
            block = block.setdefault(parent, {})
        block[last] = {**block.get(last, {}), **nested(value)} if isinstance(value, Mapping) else value
    return values


def _from_file(file: Path) -> dict[str, Any]:
    try:
        values = yaml_of(file.read_bytes())
    except OSError as error:
        raise ConfigError(f"--config {file}: {error.strerror}", field="config") from error
    except ValueError as error:
        raise ConfigError(f"--config {file} is not valid YAML: {error}", field="config") from error
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError(
            f"--config {file} contains a {type(values).__name__}; accepted: a mapping of keys to values", field="config"
        )
    return values


def _put(values: dict[str, Any], keys: list[str], text: str, model: type[BaseModel], origin: str) -> None:
    *parents, last = keys
    inner: type[BaseModel] | None = model
    for key in parents:
        field = inner.model_fields.get(key) if inner else None
        inner = model_in(field.annotation) if field else None
        values = values.setdefault(key, {})
        if not isinstance(values, dict):
            raise ConfigError(f"{origin}: {key} is not a group of keys", field=".".join(keys))
    field = inner.model_fields.get(last) if inner else None
    is_text = field is not None and (field.annotation is str or is_secret(field.annotation))
    values[last] = text if is_text else _parsed(text)


def _refuse_password(key: str, text: str, model: type[BaseModel], name: str) -> None:
    """
    Refuse a URL with a password in a command-line option.

    Raises:
        ConfigError: The key is a secret and its value a URL with a password.
    """
    if redacted(text) != text and is_secret(_annotation_at(model, key.split("."))):
        raise ConfigError(
            f"--set {key} contains a password, and every user of this machine can read command lines; accepted: the "
            f"key in the file of --config, or the variable TLT_{name.upper()}_{key.upper().replace('.', '__')}",
            field=key,
        )


def _annotation_at(model: type[BaseModel], keys: Sequence[object]) -> Any:
    """Return the type of the field at a path, or None if there is no such field."""
    inner: type[BaseModel] | None = model
    annotation: Any = None
    for key in keys:
        field = inner.model_fields.get(str(key)) if inner else None
        annotation = field.annotation if field else None
        inner = model_in(annotation)
    return annotation


def _parsed(text: str) -> JsonValue:
    try:
        value: JsonValue = json_of(text)
    except ValueError:
        return {"null": None, "none": None}.get(text.lower(), text)
    return value


def _explained(error: ValidationError, model: type[BaseModel], name: str) -> ConfigError:
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"])
    if not first["loc"]:  # about several keys together; the message begins with one of them
        message = first["msg"].removeprefix("Value error, ")
        named = message.partition(" ")[0]
        key = named if named in {one.name for one in keys(model)} else name
        return ConfigError(f"{name}: {message}", field=key)
    if first["type"] == "extra_forbidden":
        block: type[BaseModel] | None = model
        for part in first["loc"][:-1]:
            field = block.model_fields.get(str(part)) if block else None
            block = model_in(field.annotation) if field else None
        accepted = ", ".join((block or model).model_fields)
        return ConfigError(f"{name}: unknown key {key!r}; accepted: {accepted}", field=key or name)
    # Values of secrets are not repeated, nor is the whole configuration, which contains them.
    hidden = first["type"] == "missing" or not first["loc"] or is_secret(_annotation_at(model, first["loc"]))
    given = "" if hidden else f" is {_shown(first['input'])}"
    return ConfigError(f"{name}: {key}{given}: {first['msg']}", field=key)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."
