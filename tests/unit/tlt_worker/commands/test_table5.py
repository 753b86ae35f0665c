"""Table 5 of the TLT paper. The byte model has one fitted constant; see `table5` for what is assumed."""

import pytest

from tlt_worker.capacity.graphs import cost
from tlt_worker.capacity.graphs.plan import plan_graphs
from tlt_worker.commands import table5

GB = 1e9


def test_the_papers_three_figures_come_out_of_one_set_of_constants() -> None:
    plan = plan_graphs(table5.question())
    assert plan.single / GB == pytest.approx(table5.SINGLE_GB, rel=0.1)
    assert plan.naive / GB == pytest.approx(table5.NAIVE_GB, rel=0.1)
    assert plan.bytes / GB == pytest.approx(table5.BUCKETED_GB, rel=0.1)


def test_their_ratios_come_out_too() -> None:
    plan = plan_graphs(table5.question())
    assert plan.naive / plan.bytes == pytest.approx(table5.NAIVE_GB / table5.BUCKETED_GB, rel=0.05)
    assert plan.naive / plan.bytes >= 2.8
    assert plan.naive / plan.single == pytest.approx(table5.NAIVE_GB / table5.SINGLE_GB, rel=0.05)


@pytest.mark.parametrize("layer_bytes", [650_000, 750_000])
def test_the_fitted_constant_is_not_on_a_knifes_edge(layer_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "GRAPH_LAYER_BYTES", layer_bytes)
    plan = plan_graphs(table5.question())
    assert plan.single / GB == pytest.approx(table5.SINGLE_GB, rel=0.1)
    assert plan.naive / GB == pytest.approx(table5.NAIVE_GB, rel=0.1)
    assert plan.bytes / GB == pytest.approx(table5.BUCKETED_GB, rel=0.1)


def test_a_budget_below_the_single_arm_still_leaves_every_arm_graphs() -> None:
    plan = plan_graphs(table5.question(budget=int(6 * GB)))
    assert plan.bytes <= 6 * GB
    assert all(plan.captures[runner][0] == 1 for runner in plan_graphs(table5.question()).captures)
