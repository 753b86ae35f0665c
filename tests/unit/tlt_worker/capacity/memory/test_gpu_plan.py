"""How a GPU's memory is divided."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tlt_common.domain.arm import OFF, chain, ngram, tree
from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_common.drafter.reading import standard_format
from tlt_trainer.config import DataSettings
from tlt_trainer.data.feed import MIN_TOKENS
from tlt_trainer.drafter.kinds.block import ANCHOR_EVERY
from tlt_trainer.drafter.kinds.untrained import KINDS
from tlt_worker.capacity.engine_plan import EnginePlan, plan_on_gpus
from tlt_worker.capacity.graphs.attention import QWEN_WORKSPACE, WRAPPER_BYTES, FlashAttention, FlashInfer, built_bytes
from tlt_worker.capacity.graphs.runner import Runner, Stage
from tlt_worker.capacity.memory import trainer
from tlt_worker.capacity.memory.gpu_plan import Gpus
from tlt_worker.capacity.memory.table import GIB, MemoryTable
from tlt_worker.capacity.profile import profile_of
from tlt_worker.commands.cards import CARDS, CONFIGS, SHAPES, card
from tlt_worker.engine_config import CUDA_ARMS, EngineConfig

SEVEN = SHAPES["qwen2.5-7b"]


def planned(name: str, config: EngineConfig | None = None, **gpus: Any) -> EnginePlan:
    size, accelerator = card(name)
    config = config or EngineConfig()
    of = Gpus(**{"bytes": size, "shape": SEVEN, "context_length": 8192, **gpus})
    return plan_on_gpus(config, profile=profile_of(config, accelerator), gpus=of)


def table_of(plan: EnginePlan) -> MemoryTable:
    assert plan.division is not None
    return plan.division.table


@pytest.mark.parametrize("name", ["a100-80", "h100", "h200", "b200"])
def test_everything_a_7b_model_takes_on_80_gb_is_planned(name: str) -> None:
    plan = planned(name, context_length=32_768)
    table = table_of(plan)
    assert table.unplanned == 0
    assert table.free < 0.002 * table.total, "the KV cache takes what is left"
    assert table.owned("trainer") > 8 * GIB
    assert not plan.plan.dropped
    assert plan.profile.arms == profile_of(EngineConfig(), card(name)[1]).arms
    assert plan.warnings == ()


@given(
    st.sampled_from(sorted(CARDS)),
    st.sampled_from(sorted(SHAPES)),
    st.sampled_from([1, 2, 8]),
    st.sampled_from([None, ("off", "chain-3"), ("tree-4x4-16",)]),
    st.booleans(),
)
@settings(max_examples=12, deadline=None)
def test_graphs_and_rounds_stay_within_their_rows(
    name: str, shape: str, ranks: int, arms: tuple[str, ...] | None, trains: bool
) -> None:
    config = EngineConfig(tensor_parallel=ranks, arms=arms)
    try:
        plan = planned(name, config, shape=SHAPES[shape], trains=trains)
    except Exception as error:  # noqa: BLE001 - too small for its arms
        assert "engine.arms" in str(error)  # noqa: PT017
        return
    table = table_of(plan)
    assert plan.plan.bytes == table.of("CUDA graphs") <= plan.memory.graphs or not plan.plan.captures
    assert (table.owned("trainer") > 0) == trains
    assert table.unplanned == 0 or plan.warnings, "what does not fit is told"
    resolved = plan.resolved(config)
    assert resolved.gpu_memory is not None
    assert resolved.arms_on("cuda") == plan.profile.arms
    static = sum(table.of(row) for row in ("weights", "drafter", "KV cache"))
    assert static <= resolved.gpu_memory * table.total or table.unplanned


def test_a_card_that_cannot_hold_all_arms_says_which_and_what_to_change() -> None:
    plan = planned("a100-40", context_length=32_768)
    assert plan.plan.captures, "the arms that are left run on graphs"
    assert tree(8, 8, 64) not in plan.profile.arms
    assert "are too small for the default arms" in plan.warnings[0]
    assert "tree-8x8-64" in plan.warnings[0]
    assert "engine.tensor_parallel" in plan.warnings[0]
    assert "trainer.enabled" in plan.warnings[0]
    alone = planned("a100-40", context_length=32_768, trains=False)
    assert len(alone.profile.arms) > len(plan.profile.arms)


def test_arms_that_are_named_are_kept_and_lose_graphs_with_a_warning() -> None:
    named = EngineConfig(arms=tuple(arm.name for arm in CUDA_ARMS))
    plan = planned("a100-40", named, context_length=32_768)
    assert plan.profile.arms == CUDA_ARMS
    assert any("CUDA graphs do not fit" in warning and "engine.graph_bytes" in warning for warning in plan.warnings)


def test_a_share_that_leaves_too_little_is_told() -> None:
    plan = planned("a100-80", EngineConfig(gpu_memory=0.9))
    assert table_of(plan).unplanned > 0
    assert any("are needed" in warning and "engine.gpu_memory null" in warning for warning in plan.warnings)
    assert plan.resolved(EngineConfig(gpu_memory=0.9)).gpu_memory == 0.9


def test_flashinfer_counts_a_workspace_per_target_backend_and_wrappers_for_all() -> None:
    costs = FlashInfer(context_length=1000, workspace=QWEN_WORKSPACE)
    # Launch: the process's workspace and two backends. Off and chain-3: a target and a drafter's backend each, and two
    # draft steps of two wrappers.
    backends = 2 + 2 + 2
    expected = 3 * QWEN_WORKSPACE + backends * 4 * WRAPPER_BYTES + 2 * 2 * WRAPPER_BYTES
    assert built_bytes(costs, (OFF, chain(3))) == expected
    assert built_bytes(costs, (OFF, chain(3), ngram(5))) == expected + QWEN_WORKSPACE + 2 * 4 * WRAPPER_BYTES
    verify = Runner(stage=Stage.VERIFY, draft_tokens=16, topk=2)
    assert costs.tables(verify, 4) == 4 * 16 * 1000 * 5
    assert costs.graph(Runner(stage=Stage.DRAFT, draft_tokens=8, steps=7)) == 6 * WRAPPER_BYTES


def test_flash_attention_has_tables_and_no_workspace() -> None:
    costs = FlashAttention(context_length=1000)
    assert built_bytes(costs, CUDA_ARMS) == 0
    chained, branched = (Runner(stage=Stage.VERIFY, draft_tokens=8, topk=topk) for topk in (1, 2))
    assert costs.tables(branched, 4) > costs.tables(chained, 4) == 4 * 1000 * 4 * 4 + 3 * 1000 * 8


def test_the_trainer_is_planned_as_it_is_configured() -> None:
    assert DataSettings().batch_tokens == trainer.BATCH_TOKENS
    assert MIN_TOKENS == trainer.MIN_BATCH_TOKENS
    assert {kind: model.default_passes for kind, model in KINDS.items()} == trainer.PASSES
    assert ANCHOR_EVERY == trainer.ANCHOR_EVERY


def test_a_trainer_of_a_7b_model_takes_about_ten_gib() -> None:
    whole = trainer.TrainerMemory(shape=SEVEN)
    assert 9 * GIB < whole.total < 12 * GIB
    sizes = [each.total for each in trainer.trainers(SEVEN)]
    assert sizes == sorted(sizes, reverse=True)
    assert replace(whole, batch_tokens=64).total == sizes[-1]


def test_a_trainer_of_eagle3_drafters_also_holds_their_head() -> None:
    wide = SEVEN.drafting(standard_format(DrafterArchitecture.EAGLE3, CONFIGS["qwen2.5-7b"]))
    one, other = (trainer.TrainerMemory(shape=shape) for shape in (SEVEN, wide))
    head = 32_000 * SEVEN.hidden
    assert other.learned - one.learned > 5 * 4 * head
    assert one.total < other.total < one.total + 8 * 4 * head


def test_a_trainer_of_block_drafters_holds_more_and_computes_as_much() -> None:
    form = standard_format(DrafterArchitecture.BLOCK, CONFIGS["qwen2.5-7b"])
    one, other = (trainer.TrainerMemory(shape=shape) for shape in (SEVEN, SEVEN.drafting(form)))
    assert other.learned > 1.5 * one.learned, "two layers, and a Markov head"
    assert one.peak / 2 < other.peak < 2 * one.peak, "one pass over an eighth of the states, seven drafts each"
    sizes = [each.total for each in trainer.trainers(other.shape)]
    assert sizes == sorted(sizes, reverse=True)
