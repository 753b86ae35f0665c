import json

import pytest

from tests.unit.tlt_simulator.comparisons import scenario
from tlt_cache.config import CacheConfig
from tlt_common.config.base import Frozen
from tlt_common.config.loader import load
from tlt_common.errors import ConfigError
from tlt_coordinator.config import CoordinatorConfig
from tlt_gateway.config import GatewayConfig
from tlt_simulator.costs.figure import Source
from tlt_simulator.scenario import SuiteKeys
from tlt_simulator.sweep.keys import (
    PRODUCT_NAMES,
    WITHOUT_EFFECT,
    accepted_keys,
    changed,
    own_name,
    parted,
    product_name,
)
from tlt_trainer.config import TrainerKeys
from tlt_worker.config import WorkerConfig


def test_keys_of_the_suite_the_fleet_and_the_costs_are_set() -> None:
    found = changed(
        scenario(),
        {"spot.max_trainers": "2", "gateway.pack_running": "5", "fleet.workers": "9", "costs.ageing": "0.01",
         "trainer.learn_s": "7", "trainer.colocated": "false", "lending": "false"},
    )  # fmt: skip
    assert found.suite.spot.max_trainers == 2
    assert found.suite.gateway.pack_running == 5
    assert not found.suite.lending
    assert found.fleet.workers == 9
    assert found.costs.ageing.value == 0.01
    assert found.costs.ageing.source is Source.ASSUMED
    assert found.trainer.learn_s.value == 7.0
    assert not found.trainer.colocated


def test_the_rest_stays_as_it_was() -> None:
    once = changed(scenario(), {"spot.max_trainers": "2"})
    both = changed(once, {"gateway.pack_running": "0", "fleet.slots": "8"})
    assert both.suite.spot.max_trainers == 2
    assert both.fleet.kv_room == scenario().fleet.kv_room
    assert both.suite.engine == once.suite.engine


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("spot.max_trainer", "2", "spot.max_trainers"),
        ("spots.max_trainers", "2", "spot.max_trainers"),
        ("costs.nothing", "2", "costs.ageing"),
        ("spot", "{}", "accepted"),
        ("", "1", "accepted"),
        ("gateway.pack_running", "-1", "greater than or equal to 0"),
        ("gateway.pack_running", "much", "valid integer"),
        ("fleet.workers", "0", "greater than or equal to 1"),
        ("fleet.workers", "1.5", "integer"),
        ("costs.ageing", "-1", "at least 0"),
        ("costs.ageing", "NaN", "at least 0"),
        ("costs.ageing", "a lot", "at least 0"),
        ("costs.device", "1", "costs.ageing"),
        ("trainer.learn_s", "[]", "at least 0"),
        ("trainer.colocated", "maybe", "boolean"),
        ("trainer.max_staleness", "-1", "greater than or equal to 0"),
        ("engine.arms", "chain-0", "chain"),
    ],
)
def test_what_is_not_accepted_is_refused_by_name(key: str, value: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        changed(scenario(), {key: value}, option="--over")
    assert str(refused.value).startswith(f"--over {key}")
    assert said in str(refused.value)


def test_lists_are_names_with_commas_or_json() -> None:
    for text in ("off,chain-3", '["off", "chain-3"]'):
        assert changed(scenario(), {"engine.arms": text}).suite.engine.arms == ("off", "chain-3")


def test_options_are_parted() -> None:
    assert parted(["spot.max_trainers=2", "coordinator.spot.max_trainers=3"]) == {"spot.max_trainers": "3"}
    for option in ("spot.max_trainers", "=2"):
        with pytest.raises(ConfigError, match="KEY=VALUE"):
            parted([option])


SERVICES: dict[str, type[Frozen]] = {
    "coordinator": CoordinatorConfig,
    "gateway": GatewayConfig,
    "worker": WorkerConfig,
    "trainer": TrainerKeys,
    "cache": CacheConfig,
}
NEEDED = {
    "worker": ["model=/", "coordinator=c:1"],
}


@pytest.mark.parametrize("key", [key for key in accepted_keys(scenario()) if key.partition(".")[0] in PRODUCT_NAMES])
def test_the_suite_takes_every_key_by_its_product_name(key: str) -> None:
    service, _, name = product_name(key).partition(".")
    value: object = SuiteKeys()
    for part in key.split("."):
        value = getattr(value, part)
    settings = [*NEEDED.get(service, []), f"{name}={json.dumps(value)}"]
    found: object = load(SERVICES[service], service, file=None, environment={}, settings=settings)
    for part in name.split("."):
        found = getattr(found, part)
    assert found == value
    assert own_name(product_name(key)) == key


@pytest.mark.parametrize("key", sorted(WITHOUT_EFFECT))
def test_what_a_simulation_would_ignore_is_refused(key: str) -> None:
    assert key not in accepted_keys(scenario())
    with pytest.raises(ConfigError, match=WITHOUT_EFFECT[key]):
        changed(scenario(), {key: "3"})
