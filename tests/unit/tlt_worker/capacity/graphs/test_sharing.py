from types import SimpleNamespace

import pytest

from tlt_common.domain.arm import OFF, chain, ngram, tree
from tlt_worker.capacity.engine_plan import plan_on_gpus
from tlt_worker.capacity.graphs.runner import Stage, runners_of
from tlt_worker.capacity.graphs.sharing import GraphSharing
from tlt_worker.capacity.memory.gpu_plan import Gpus
from tlt_worker.capacity.profile import profile_of
from tlt_worker.commands.cards import SHAPES, card
from tlt_worker.engine_config import EngineConfig

WIDE, DEEP = tree(4, 8, 16), tree(8, 4, 16)
SIZES = {
    "off": {"verify": [1, 2, 4]},
    WIDE.name: {"verify": [1, 2], "draft": [1], "extend": [1, 2]},
    DEEP.name: {"verify": [1, 2], "draft": [1, 2], "extend": [1, 2]},
    "chain-3": {"verify": [], "draft": [1], "extend": []},
}


def state(name: str) -> SimpleNamespace:
    return SimpleNamespace(
        target_attn_backend=f"{name}'s attention",
        target_graph_runner=f"{name}'s verify",
        draft_attn_backend=f"{name}'s draft attention",
        cuda_graph_runner=f"{name}'s draft",
        draft_extend_attn_backend=f"{name}'s extend attention",
        cuda_graph_runner_for_draft_extend=f"{name}'s extend",
    )


def test_a_shape_is_captured_by_the_first_arm_that_has_it() -> None:
    sharing = GraphSharing(sizes=SIZES)
    assert sharing.due(WIDE, Stage.VERIFY) == (1, 2)
    first, second = state("wide"), state("deep")
    sharing.share(WIDE, first)
    assert first == state("wide")
    assert sharing.due(DEEP, Stage.VERIFY) == sharing.due(DEEP, Stage.EXTEND) == ()
    assert sharing.due(DEEP, Stage.DRAFT) == (1, 2)
    sharing.share(DEEP, second)
    assert (second.target_attn_backend, second.target_graph_runner) == ("wide's attention", "wide's verify")
    assert second.cuda_graph_runner_for_draft_extend == "wide's extend"
    assert (second.draft_attn_backend, second.cuda_graph_runner) == ("deep's draft attention", "deep's draft")


def test_without_sharing_every_arm_captures_its_own() -> None:
    sharing = GraphSharing(sizes=SIZES, shares=False)
    first, second = state("wide"), state("deep")
    sharing.share(WIDE, first)
    assert sharing.due(WIDE, Stage.VERIFY) == ()
    assert sharing.due(DEEP, Stage.VERIFY) == (1, 2)
    sharing.share(DEEP, second)
    assert second == state("deep")


def test_what_is_not_planned_is_not_captured() -> None:
    sharing = GraphSharing(sizes=SIZES)
    assert (
        sharing.due(OFF, Stage.DRAFT)
        == sharing.due(chain(3), Stage.VERIFY)
        == sharing.due(ngram(3), Stage.VERIFY)
        == ()
    )


def test_arms_of_one_shape_share_their_attention_also_without_graphs() -> None:
    sharing = GraphSharing(sizes=SIZES)
    sharing.share(chain(3), state("sampled"))
    best = state("best")
    sharing.share(chain(3, sampled=False), best)
    assert best.target_attn_backend == "sampled's attention"
    assert best.draft_attn_backend == "best's draft attention"


def test_the_logits_are_as_wide_as_the_widest_graph() -> None:
    assert GraphSharing(sizes=SIZES).logit_rows() == 2 * 16
    assert GraphSharing(sizes={}).logit_rows() == 0


@pytest.mark.parametrize("max_running", [4, 64, 512])
@pytest.mark.parametrize("arms", ["chain-3", "ngram-5", "tree-4x4-16", "chain-3,tree-8x8-64", "off,chain-7", "off"])
def test_they_hold_every_graph_that_is_planned_also_those_of_off_if_it_is_not_an_arm(
    arms: str, max_running: int
) -> None:
    config = EngineConfig.model_validate({"arms": arms, "max_running": max_running})
    size, accelerator = card("h200")
    gpus = Gpus(bytes=size, shape=SHAPES["qwen2.5-7b"], context_length=4096)
    planned = plan_on_gpus(config, profile=profile_of(config, accelerator), gpus=gpus).plan
    sizes = {arm.name: {str(runner.stage): planned.sizes(runner) for runner in runners_of(arm)} for arm in planned.arms}
    written = [
        max(batches) * (runner.draft_tokens if runner.stage is Stage.VERIFY else 1)
        for runner, batches in planned.captures.items()
    ]
    assert GraphSharing(sizes=sizes).logit_rows() == max(written) >= max_running


def test_on_a_cpu_every_arm_keeps_what_it_has() -> None:
    sharing, own = GraphSharing(sizes={}), state("own")
    sharing.share(WIDE, state("other"))
    sharing.share(WIDE, own)
    assert own == state("own")
