"""Rows of experts follow the keys and values of their tokens."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tlt_common.domain.arm import arms_named
from tlt_worker.engine_config import EngineConfig
from tlt_worker.link.settings import LINK_VARIABLE, LinkSettings
from tlt_worker.scheduler import routed_experts

ROWS = torch.arange(8 * 2 * 3).reshape(8, 2, 3)
"""Of two requests with trees of four nodes: a row per node, two layers, three experts."""


def test_the_accepted_path_of_a_tree_comes_first() -> None:
    captured = SimpleNamespace(topk=ROWS.clone())
    accepted = torch.tensor([[0, 2, 3], [4, 6, -1]])  # nodes of all trees; -1: not accepted
    routed_experts.follow_accepted(SimpleNamespace(routed_experts_output=captured, accept_index=accepted), 2, 4)
    assert torch.equal(captured.topk[[0, 1, 2, 4, 5]], ROWS[[0, 2, 3, 4, 6]])


def test_a_round_without_capture_is_left_alone() -> None:
    routed_experts.follow_accepted(SimpleNamespace(routed_experts_output=None, accept_index=None), 2, 4)


def test_buffers_have_room_for_all_tokens_that_a_round_verifies(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("off", "chain-3", "tree-3x4-16")
    settings = LinkSettings(directory="", device="cpu", engine=EngineConfig(arms=names))
    monkeypatch.setenv(LINK_VARIABLE, settings.to_json())
    made: dict[str, Any] = {}
    routed_experts.room_for_verification(made.update, max_running_requests=5, num_tokens=9)
    assert made == {"max_running_requests": 5 * 16, "num_tokens": 9}
    assert max(arm.draft_tokens for arm in arms_named(names)) == 16
    json.loads(settings.to_json())


@pytest.mark.parametrize("overlaps", [True, False])
def test_choices_reach_the_processing_in_any_loop(overlaps: bool) -> None:
    asked: list[bool] = []

    class Captured:
        topk = ROWS

        def map_device_tensors(self, move: Any) -> None:
            self.topk = move(self.topk)

    def original(*, no_copy_to_cpu: bool) -> Captured:
        asked.append(no_copy_to_cpu)
        return Captured()

    kept = routed_experts.keep_until_processed(original, no_copy_to_cpu=overlaps)
    assert asked == [True]
    assert torch.equal(kept.topk, ROWS)
