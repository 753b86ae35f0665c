"""Defaults that rest on a GPU's time scale were chosen by a sweep of the simulator, and say so."""

import json
import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from tlt_cache.config import CacheConfig
from tlt_coordinator.config import SpotConfig
from tlt_gateway.config import GatewayConfig
from tlt_simulator.scenario import SuiteKeys
from tlt_trainer.config import DataSettings, PaySettings, PublishSettings
from tlt_worker.engine_config import EngineConfig

PAGE = (Path(__file__).parents[3] / "docs/results/sweeps.md").read_text()
CHOSEN: dict[str, tuple[type[BaseModel], str]] = {
    "spot.settle_s": (SpotConfig, "settle_s"),
    "spot.max_trainers": (SpotConfig, "max_trainers"),
    "gateway.spill_load": (GatewayConfig, "spill_load"),
    "engine.speculate_below_requests": (EngineConfig, "speculate_below_requests"),
    "engine.arms": (EngineConfig, "arms"),
    "engine.group_below_requests": (EngineConfig, "group_below_requests"),
    "cache.budget_bytes": (CacheConfig, "budget_bytes"),
    "data.pool_bytes": (DataSettings, "pool_bytes"),
    "data.take_tokens": (DataSettings, "take_tokens"),
    "data.take_every_s": (DataSettings, "take_every_s"),
    "publish.every_tokens": (PublishSettings, "every_tokens"),
    "publish.gain": (PublishSettings, "gain"),
    "pay.evaluations": (PaySettings, "evaluations"),
    "pay.gain": (PaySettings, "gain"),
    "pay.fresh_tokens": (PaySettings, "fresh_tokens"),
    "pay.look_every_s": (PaySettings, "look_every_s"),
}
"""Keys, and where they are defined."""


@pytest.mark.parametrize("key", sorted(CHOSEN))
def test_a_default_names_its_sweep_and_is_the_one_that_was_swept(key: str) -> None:
    model, name = CHOSEN[key]
    field = model.model_fields[name]
    assert "`tlt simulate sweep`" in (field.description or "").replace("\n", " ")
    row = re.search(rf"^\| `{re.escape(key)}` \| `(\S+)` \| (.+?) \|", PAGE, re.MULTILINE)
    assert row is not None, "docs/results/sweeps.md has no row"
    value = field.get_default(call_default_factory=True)
    default = f"{value:g}" if isinstance(value, float) else json.dumps(value)
    assert row[1] == default, "the default is no longer the one that the page reports"
    assert default in row[2].replace("`", "").split(", "), "the default was not among the values"


def test_the_simulator_has_the_defaults_of_the_services() -> None:
    keys = SuiteKeys()
    for key, (model, name) in CHOSEN.items():
        group, _, own = key.partition(".")
        default = model.model_fields[name].get_default(call_default_factory=True)
        assert getattr(getattr(keys, group), own) == default, key
