"""What is planned is what SGLang captures. Capturing itself needs a GPU and is not tested here."""

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def told(play: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    return play("scenes_graphs.sizes")


def test_sglang_captures_the_planned_batch_sizes_of_an_arm(told: dict[str, Any]) -> None:
    assert told["chain-3"] == [1, 2, 4]
    assert told["tree-2x4-8"] == [1, 2]


def test_an_arm_of_the_same_shape_captures_nothing_and_uses_the_others(told: dict[str, Any]) -> None:
    assert told["tree-4x2-8"] is None
    assert told["tree-4x2-8 verifies with"] == "tree-2x4-8"


def test_an_arm_without_planned_graphs_captures_nothing(told: dict[str, Any]) -> None:
    assert told["chain-7"] is None
    assert told["chain-7 verifies with"] == "chain-7"


def test_sglangs_configuration_is_as_before(told: dict[str, Any]) -> None:
    assert told["is_restored"]
