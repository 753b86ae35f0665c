"""Settings of a run's services: the sections of `--config FILE`, then `--set SERVICE.KEY=VALUE`."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tlt_common.config.entry import service_entry
from tlt_common.config.loader import pair_of, resolve
from tlt_common.errors import ConfigError

_ITSELF = "`tlt up` sets it"
_RUN_DIR = "use --run-dir"
_EVERYWHERE = {"listen": _ITSELF, "metrics_port": _ITSELF, "port_file": _ITSELF, "tls": "use --tls"}
DECIDED: Mapping[str, Mapping[str, str]] = {
    "gateway": {
        **_EVERYWHERE,
        "listen": "use --port",
        "coordinator": _ITSELF,
        "spool_dir": _ITSELF,
        "spool_shared": _ITSELF,
    },
    "worker": {
        **_EVERYWHERE,
        **dict.fromkeys(("coordinator", "cache", "tuner", "worker_id", "run_dir"), _ITSELF),
        "model": "use --model",
        "engine.drafter": "use --drafter",
        "cores": "use --cores-per-worker",
        "trainer.settings": "use trainer.KEY",
    },
    "cache": {**_EVERYWHERE, "redis": "use --redis", "run_dir": _ITSELF},
    "trainer": {},
    "tuner": {**_EVERYWHERE, "redis": "use --redis"},
    "coordinator": {
        **_EVERYWHERE,
        "listen": "use --port",
        "http_listen": "use --port",
        "state_dir": _RUN_DIR,
        "kubernetes": "this is a run outside Kubernetes",
    },
}
"""Keys that `tlt up` sets itself, and what to use instead."""
SERVICES = tuple(DECIDED)
_STAND_INS: Mapping[str, Mapping[str, str]] = {
    "worker": {"model": "/", "coordinator": "coordinator:1"},
}
"""Placeholders for decided keys that a configuration requires."""


def flattened(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested settings with keys joined by dots. An empty mapping stays a value."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        inner = isinstance(value, Mapping) and value
        flat |= flattened(value, f"{prefix}{key}.") if inner else {f"{prefix}{key}": value}
    return flat


def spelled(values: Mapping[str, Any]) -> dict[str, str]:
    """Return settings in the form of `tlt serve --set`: keys joined by dots, values as text or JSON."""
    flat = flattened(values)
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in flat.items()}


def settings_of(sections: Mapping[str, Mapping[str, Any]], options: Sequence[str]) -> dict[str, dict[str, Any]]:
    """
    Merge the sections of a file with `SERVICE.KEY=VALUE` options, which override it. Return the settings by service.

    Raises:
        ConfigError: A service or key is unknown, `tlt up` sets the key itself, or its value is invalid.
    """
    by_service: dict[str, list[str]] = {}
    for option in options:
        service, _, setting = option.partition(".")
        if service not in SERVICES or "=" not in setting:
            raise ConfigError(
                f"--set {option}: accepted: SERVICE.KEY=VALUE, with one of {', '.join(SERVICES)}", field="set"
            )
        by_service.setdefault(service, []).append(setting)
    settings = {name: checked(name, sections.get(name) or {}, by_service.get(name, ())) for name in SERVICES}
    return {name: values for name, values in settings.items() if values}


def checked(name: str, section: Mapping[str, Any], options: Sequence[str]) -> dict[str, Any]:
    """
    Merge the section of one service with `KEY=VALUE` options, which override it.

    Raises:
        ConfigError: As for `settings_of`.
    """
    for key in (*flattened(section), *(pair_of(option)[0] for option in options)):
        _refuse_decided(name, key)
    stand_ins = _STAND_INS.get(name, {})
    config = resolve(service_entry(name).keys, name, {**section, **stand_ins}, environment={}, settings=options)
    values = config.model_dump(mode="json", exclude_unset=True)
    return {key: value for key, value in values.items() if key not in stand_ins}


def _refuse_decided(name: str, key: str) -> None:
    for prefix in _prefixes(key):
        if instead := DECIDED[name].get(prefix):
            raise ConfigError(
                f"{name}.{key} cannot be set: {instead}; `tlt config explain {name}` lists the keys",
                field=f"{name}.{key}",
            )


def _prefixes(key: str) -> Iterator[str]:
    """Return all prefixes of a dotted key, ending with the key itself."""
    parts = key.split(".")
    return (".".join(parts[:count]) for count in range(1, len(parts) + 1))
