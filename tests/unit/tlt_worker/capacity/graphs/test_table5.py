"""
The byte model, which has one fitted constant, gives Table 5 of the TLT paper (arXiv 2511.16665): graph memory of eight
arms of a 32B model.

The paper gives three figures. Of their set-up, only the model and the number of arms are known. The rest is assumed:
eight-way tensor parallelism and 2k + 32k tokens, as in the authors' script for 32B; pairs of trees for 64, 48, 32 and
16 tokens to verify, with depths and widths in the range of the paper's other tables; at most 1,280 tokens verified per
round; drafts below 65 requests; plain decoding up to 160, the largest batch SGLang captures by default; and one logits
buffer per runner in the authors' SGLang.
"""

import pytest

from tlt_common.domain.arm import OFF, Arm, tree
from tlt_worker.capacity.graphs import cost
from tlt_worker.capacity.graphs.cost import Costs
from tlt_worker.capacity.graphs.plan import Question, plan_graphs
from tlt_worker.capacity.shape import ModelShape

GB = 1e9
SINGLE_GB, NAIVE_GB, BUCKETED_GB = 7.81, 30.39, 10.69

QWEN2_5_32B = ModelShape(layers=64, hidden=5120, heads=40, kv_heads=8, head_dim=128, intermediate=27648, vocab=152064)
ARMS = (
    *(tree(steps, 8, 64) for steps in (10, 8)),
    tree(8, 4, 48),
    tree(6, 8, 48),
    tree(6, 4, 32),
    tree(4, 8, 32),
    tree(4, 4, 16),
    tree(3, 4, 16),
)
TOKENS_PER_ROUND, DRAFTS_UPTO, PLAIN_UPTO = 1280, 64, 160


def allows(arm: Arm, batch: int) -> bool:
    """Return whether an arm may run with this many requests."""
    return arm == OFF or (batch <= DRAFTS_UPTO and batch * arm.draft_tokens <= TOKENS_PER_ROUND)


def question(budget: int | None = None) -> Question:
    """Return the paper's case as a planning problem."""
    costs = Costs(model=QWEN2_5_32B, tensor_parallel=8, context_length=34 * 1024, shared_logits=False)
    return Question(arms=ARMS, costs=costs, max_batch=PLAIN_UPTO, allows=allows, budget=budget)


def test_the_papers_three_figures_come_out_of_one_set_of_constants() -> None:
    plan = plan_graphs(question())
    assert plan.single / GB == pytest.approx(SINGLE_GB, rel=0.1)
    assert plan.naive / GB == pytest.approx(NAIVE_GB, rel=0.1)
    assert plan.bytes / GB == pytest.approx(BUCKETED_GB, rel=0.1)


def test_their_ratios_come_out_too() -> None:
    plan = plan_graphs(question())
    assert plan.naive / plan.bytes == pytest.approx(NAIVE_GB / BUCKETED_GB, rel=0.05)
    assert plan.naive / plan.bytes >= 2.8
    assert plan.naive / plan.single == pytest.approx(NAIVE_GB / SINGLE_GB, rel=0.05)


@pytest.mark.parametrize("layer_bytes", [650_000, 750_000])
def test_the_fitted_constant_is_not_on_a_knifes_edge(layer_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "GRAPH_LAYER_BYTES", layer_bytes)
    plan = plan_graphs(question())
    assert plan.single / GB == pytest.approx(SINGLE_GB, rel=0.1)
    assert plan.naive / GB == pytest.approx(NAIVE_GB, rel=0.1)
    assert plan.bytes / GB == pytest.approx(BUCKETED_GB, rel=0.1)


def test_a_budget_below_the_single_arm_still_leaves_every_arm_graphs() -> None:
    plan = plan_graphs(question(budget=int(6 * GB)))
    assert plan.bytes <= 6 * GB
    assert all(plan.captures[runner][0] == 1 for runner in plan_graphs(question()).captures)
