"""Defaults and constants that rest on a GPU's time scale were chosen by a sweep of the simulator, and say so."""

import ast
import inspect
import json
import re
from pathlib import Path
from types import ModuleType

import pytest
from pydantic import BaseModel

from tlt_cache.config import CacheConfig
from tlt_common.domain import fleet
from tlt_coordinator.config import SpotConfig
from tlt_gateway.workers import routing
from tlt_simulator.scenario import SuiteKeys
from tlt_trainer import config
from tlt_trainer.config import PublishSettings
from tlt_trainer.data import intake
from tlt_trainer.sharing import decision
from tlt_worker.engine_config import EngineConfig

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/results/sweeps.md").read_text()
CHOSEN: dict[str, tuple[type[BaseModel], str]] = {
    "spot.max_trainers": (SpotConfig, "max_trainers"),
    "engine.speculate_below_requests": (EngineConfig, "speculate_below_requests"),
    "engine.arms": (EngineConfig, "arms"),
    "engine.group_below_requests": (EngineConfig, "group_below_requests"),
    "cache.budget_bytes": (CacheConfig, "budget_bytes"),
    "publish.every_tokens": (PublishSettings, "every_tokens"),
    "publish.gain": (PublishSettings, "gain"),
}
"""Keys, and where they are defined."""
CONSTANTS = {
    "SPILL_LOAD": routing,
    "TAKE_TOKENS": intake,
    "TAKE_EVERY_S": intake,
    "LOOK_EVERY_S": intake,
    "PAY_GAIN": fleet,
    "FRESH_TOKENS": decision,
    "POOL_BYTES": config,
    "PLATEAU_EVALUATIONS": config,
}
"""The same for constants."""


@pytest.mark.parametrize("key", sorted(CHOSEN))
def test_a_default_names_its_sweep_and_is_the_one_that_was_swept(key: str) -> None:
    model, name = CHOSEN[key]
    field = model.model_fields[name]
    assert "`tlt simulate sweep`" in (field.description or "").replace("\n", " ")
    require_swept(f"`{key}`", field.get_default(call_default_factory=True))


@pytest.mark.parametrize("name", sorted(CONSTANTS))
def test_a_constant_names_the_sweeps_and_is_the_one_that_was_swept(name: str) -> None:
    module = CONSTANTS[name]
    assert "docs/results/sweeps.md" in docstring_of(module, name)
    file = str(Path(inspect.getfile(module)).relative_to(ROOT)).removeprefix("services/")
    require_swept(f"`{name}` of `{file}`", getattr(module, name))


def require_swept(named: str, value: object) -> None:
    row = re.search(rf"^\| {re.escape(named)} \| `(\S+)` \| (.+?) \|", PAGE, re.MULTILINE)
    assert row is not None, "docs/results/sweeps.md has no row"
    default = f"{value:g}" if isinstance(value, float) else json.dumps(value)
    assert row[1] == default, "the default is no longer the one that the page reports"
    assert default in row[2].replace("`", "").split(", "), "the default was not among the values"


@pytest.mark.parametrize(("column", "run"), [(3, "sweep-7b"), (4, "sweep-32b")])
def test_the_table_shows_what_the_sweep_measured(column: int, run: str) -> None:
    figures = json.loads((ROOT / f"docs/results/data/{run}.json").read_text())["figures"]
    shown = set[str]()
    for key in CHOSEN:
        (row,) = re.findall(rf"^\| `{re.escape(key)}` \|.*$", PAGE, re.MULTILINE)
        measured = [name for name in figures if name.startswith(key.replace(".", "_"))]
        numbers = row.split("|")[column + 1].strip().split(", ")
        assert [number for number in numbers if "*" in number] == [f"**{figures['default']:.2f}**"], key
        assert [number for number in numbers if "*" not in number] == [f"{figures[name]:.2f}" for name in measured], key
        shown |= {"default", *measured}
    assert shown == set(figures)


def docstring_of(module: ModuleType, name: str) -> str:
    """Return the text below a constant."""
    body = ast.parse(inspect.getsource(module)).body
    (place,) = (place for place, node in enumerate(body) if isinstance(node, ast.Assign) and name in ast.unparse(node))
    return ast.unparse(body[place + 1])


def test_the_simulator_has_the_defaults_of_the_services() -> None:
    keys = SuiteKeys()
    for key, (model, name) in CHOSEN.items():
        group, _, own = key.partition(".")
        default = model.model_fields[name].get_default(call_default_factory=True)
        assert getattr(getattr(keys, group), own) == default, key
