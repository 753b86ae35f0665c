"""Keys of a scenario for `--set` and `--over`: the suite's, the fleet's, the trainer's and the costs'."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tlt_common.config.base import Frozen
from tlt_common.config.explain import keys as keys_of
from tlt_common.config.loader import resolve
from tlt_common.errors import ConfigError
from tlt_simulator.costs.figure import CostFigure, Source
from tlt_simulator.scenario import RolloutFleet, Scenario, SuiteKeys

PRODUCT_NAMES: Mapping[str, str] = {
    "lending": "coordinator.lending",
    "spot": "coordinator.spot",
    "gateway": "gateway",
    "engine": "worker.engine",
    "publish": "trainer.publish",
    "data": "trainer.data",
    "cache": "cache",
}
"""The suite's names in `tlt up --set` of the first part of a key. Both spellings are accepted."""
_LEARNING = ("trainer.learn_s", "trainer.learn_token_s")
_TRAINER = ("trainer.colocated", "trainer.max_staleness")
WITHOUT_EFFECT: Mapping[str, str] = {
    "data.batch_tokens": "how fast trainers learn is costs.learn_tokens_s",
    "fleet.gpus": "what rounds cost depends on it; accepted: --gpus-per-worker, or another case",
    "fleet.kv_room": "the memory plan decides it; accepted: --kv-room",
    "fleet.plain_kv_room": "the memory plan decides it; accepted: --kv-room",
}
"""Keys that are refused, since a simulation would ignore them, and why."""


def accepted_keys(scenario: Scenario) -> tuple[str, ...]:
    """Return all keys that can be set."""
    suite = (key.name for key in keys_of(SuiteKeys))
    fleet = (f"fleet.{key.name}" for key in keys_of(RolloutFleet))
    costs = (f"costs.{name}" for name, _ in scenario.costs.figures())
    found = (*suite, *fleet, *_LEARNING, *_TRAINER, *costs)
    return tuple(key for key in found if key not in WITHOUT_EFFECT)


def own_name(key: str) -> str:
    """Return a key under its name in the scenario."""
    for own, product in PRODUCT_NAMES.items():
        if key == product or key.startswith(f"{product}."):
            return own + key.removeprefix(product)
    return key


def product_name(key: str) -> str:
    """Return a key under its name in `tlt up --set`."""
    first, dot, rest = own_name(key).partition(".")
    return f"{PRODUCT_NAMES.get(first, first)}{dot}{rest}"


def changed(scenario: Scenario, settings: Mapping[str, str], *, option: str = "--set") -> Scenario:
    """
    Return a scenario with changed keys.

    Args:
        scenario: The scenario to change.
        settings: Values as text, by key.
        option: Name of the option that set them, for errors.

    Raises:
        ConfigError: A key is unknown, its value is not accepted, the trainer is asynchronous and shares GPUs, or the
            model does not fit.
    """
    known, before = accepted_keys(scenario), scenario
    for given, text in settings.items():
        key = own_name(given)
        if key in WITHOUT_EFFECT:
            raise ConfigError(f"{option} {given}: {WITHOUT_EFFECT[key]}", field=given)
        if key not in known:
            raise ConfigError(f"{option} {given}: unknown key; accepted: {', '.join(known)}", field=given)
        scenario = _with(scenario, key, text, f"{option} {given}")
    trainer = scenario.trainer
    if trainer.colocated and trainer.is_asynchronous:
        raise ConfigError(
            f"max_staleness is {trainer.max_staleness} and the trainer is colocated: rollouts go on while an "
            "asynchronous trainer learns, so that it needs GPUs of its own; accepted: --max-staleness or --colocated",
            field="max_staleness",
        )
    memory = scenario.memory
    if memory is None or scenario.engine == before.engine:
        return scenario
    return scenario.planned(memory.card, memory.model, memory.context, kv_room=memory.given)


def parted(options: Sequence[str], *, option: str = "--set") -> dict[str, str]:
    """
    Split options of the form KEY=VALUE. If a key is repeated, its last value counts.

    Raises:
        ConfigError: An option has another form.
    """
    found = dict[str, str]()
    for text in options:
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise ConfigError(f"{option} {text}: accepted: KEY=VALUE", field=option.lstrip("-"))
        found[own_name(key)] = value
    return found


def set_figure(scenario: Scenario, name: str, value: float) -> Scenario:
    """Return a scenario with one number changed: `costs.NAME`, or one of the RL trainer's."""
    if name in _LEARNING:
        learning = {name.removeprefix("trainer."): CostFigure(value=value, source=Source.ASSUMED)}
        return scenario.model_copy(update={"trainer": scenario.trainer.model_copy(update=learning)})
    costs = scenario.costs.replaced(**{name.removeprefix("costs."): value})
    return scenario.model_copy(update={"costs": costs})


def _with(scenario: Scenario, key: str, text: str, origin: str) -> Scenario:
    group, _, name = key.partition(".")
    if group == "costs" or key in _LEARNING:
        return set_figure(scenario, key, _number(text, origin))
    if key in _TRAINER:
        return scenario.model_copy(update={"trainer": _resolved(scenario.trainer, f"{name}={text}", origin)})
    if group == "fleet":
        return scenario.model_copy(update={"fleet": _resolved(scenario.fleet, f"{name}={text}", origin)})
    return scenario.model_copy(update={"suite": _resolved(scenario.suite, f"{key}={text}", origin)})


def _resolved(model: Any, setting: str, origin: str) -> Frozen:
    given: Mapping[str, Any] = model.model_dump(mode="json", exclude_unset=True)
    found: Frozen = resolve(type(model), origin, given, environment={}, settings=[setting])
    return found


def _number(text: str, origin: str) -> float:
    try:
        value = float(json.loads(text))
        return CostFigure(value=value, source=Source.ASSUMED).value
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{origin} is {text!r}; accepted: a number of at least 0", field=origin) from error
