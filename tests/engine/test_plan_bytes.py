"""The memory plan against the bytes of SGLang's own classes: public models, and every family."""

from typing import Any

import pytest

from tests.families import TYPES, written
from tlt_common.drafter.heads import HEADS
from tlt_worker.commands.cards import CONFIGS
from tlt_worker.commands.plan_check import MOST, check_plans
from tlt_worker.engine_config import EngineConfig
from tlt_worker.model.families import FAMILIES

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

TINY = {family: written(family, num_hidden_layers=8) for family in TYPES}
HEADED = {row.architecture: row.model_type for row in HEADS.values()}
TINY_HEADS = {family: written(family, num_hidden_layers=8, num_nextn_predict_layers=1) for family in HEADED.values()}
PUBLIC_HEADS = {name: config for name, config in CONFIGS.items() if config["architectures"][0] in HEADED}


@pytest.mark.parametrize(
    ("kind", "models"),
    [
        ("eagle", CONFIGS),
        ("eagle3", TINY),
        ("block", CONFIGS),
        ("block", TINY),
        ("mtp", PUBLIC_HEADS),
        ("mtp", TINY_HEADS),
    ],
    ids=["public", "tiny", "public with blocks", "tiny with blocks", "public with heads", "tiny with heads"],
)
def test_planned_bytes_are_those_that_sglang_allocates(kind: str, models: dict[str, dict[str, Any]]) -> None:
    rows = check_plans(list(models.values()), EngineConfig(drafter_architecture=kind), "bfloat16")
    found = {(model, row.name): row.difference for model, each in zip(models, rows, strict=True) for row in each}
    assert len(found) == 3 * len(models)
    assert not {key: difference for key, difference in found.items() if abs(difference) > MOST}


def test_all_families_are_compared() -> None:
    assert {config["architectures"][0] for config in TINY.values()} == set(FAMILIES)
    assert {config["architectures"][0] for config in PUBLIC_HEADS.values()} == set(HEADED)
