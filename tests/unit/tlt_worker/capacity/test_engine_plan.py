"""What an engine refuses, and how far its arms fit."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.tlt_worker.capacity.arms import SMALL, questions
from tlt_common.domain.arm import OFF, Arm, chain, ngram, tree
from tlt_common.errors import ConfigError
from tlt_worker.capacity.engine_plan import EnginePlan, plan_engine
from tlt_worker.capacity.graphs.plan import Question, plan_graphs
from tlt_worker.capacity.memory.memory import GIB, Memory, Workspace, backlog_of, cpu_memory_of, machine_memory
from tlt_worker.capacity.profile import Accelerator, profile_of
from tlt_worker.capacity.shape import ModelShape
from tlt_worker.engine_config import EngineConfig

AMPLE = Memory(graphs=GIB, work=GIB)
KEPT = backlog_of(slots=16 * 512, state_bytes=SMALL.state_bytes)
"""Bytes of what the drafter of `planned` may have missed."""


def planned(*arms: Arm, memory: Memory = AMPLE, context_length: int = 512, tokens: int | None = None) -> EnginePlan:
    return plan(engine(*arms, max_total_tokens=tokens), memory=memory, context_length=context_length)


def plan(
    config: EngineConfig, *, shape: ModelShape = SMALL, memory: Memory = AMPLE, context_length: int = 512
) -> EnginePlan:
    profile = profile_of(config, Accelerator(kind="cpu"))
    return plan_engine(config, profile=profile, shape=shape, memory=memory, context_length=context_length)


def engine(*arms: Arm, **more: Any) -> EngineConfig:
    return EngineConfig(arms=tuple(arm.name for arm in arms), **{"max_running": 16, **more})


def test_an_engine_that_never_drafts_is_accepted() -> None:
    assert planned(OFF).max_batch == {OFF: 16}


def test_what_the_drafter_missed_takes_work_space_from_rounds() -> None:
    needs = Memory(graphs=GIB, work=KEPT)
    with pytest.raises(ConfigError, match=r"'chain-3' needs 0.09 MiB .* but only 0\.00 MiB are free"):
        planned(chain(3), memory=needs)
    assert planned(ngram(3), memory=needs).max_batch[ngram(3)] >= 1, "retrieval keeps no states"


def test_an_arm_that_contradicts_the_thresholds_is_refused() -> None:
    never = engine(OFF, chain(3), chain(7), group_below_requests={8: 1})
    with pytest.raises(ConfigError, match=r"group_below_requests .* disable 'chain-7' at every batch size") as refused:
        plan(never)
    assert refused.value.field == "engine.arms"


def test_a_tree_wider_than_the_vocabulary_is_refused() -> None:
    letters = ModelShape(layers=1, hidden=8, heads=1, kv_heads=1, head_dim=8, intermediate=8, vocab=4)
    with pytest.raises(ConfigError, match=r"'tree-2x8-8' has 8 branches, .* 4 tokens; the maximum is 4"):
        plan(engine(tree(2, 8, 8)), shape=letters)


def test_an_arm_longer_than_the_context_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'chain-7' verifies 8 .* context length is 8; accepted: fewer than 8"):
        planned(chain(3), chain(7), context_length=8)


def test_an_arm_the_cache_cannot_reserve_for_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"'tree-8x8-64' reserves 128 tokens .* holds 100; .*engine\.max_total_tokens"
    ):
        planned(tree(8, 8, 64), tokens=100)


def test_an_arm_whose_work_space_fits_at_no_batch_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'tree-8x8-64' needs 1.26 MiB of workspace for one request"):
        planned(chain(3), tree(8, 8, 64), memory=Memory(graphs=0, work=KEPT + 200_000))


def test_an_arm_runs_only_at_batches_at_which_it_fits() -> None:
    most = planned(chain(3), tree(8, 8, 64), memory=Memory(graphs=0, work=KEPT + 4_000_000)).max_batch
    assert most[OFF] == most[chain(3)] == 16
    assert 1 <= most[tree(8, 8, 64)] < 16


@given(questions(), st.integers(0, 2**36))
@settings(max_examples=60, deadline=None)
def test_no_batch_at_which_an_arm_fits_needs_more_than_is_free(question: Question, free: int) -> None:
    graphs = plan_graphs(question)
    workspace = Workspace(costs=question.costs, kv_tokens=100_000, free=free)
    for arm in graphs.arms:
        most = workspace.max_batch(arm, graphs)
        if arm != OFF:
            assert all(workspace.round(arm, batch, graphs.has_graph) <= free for batch in range(1, most + 1))
            assert most == question.max_batch or workspace.round(arm, most + 1, graphs.has_graph) > free


def test_sampled_drafts_and_missing_graphs_need_room() -> None:
    question = planned(chain(7), chain(7, sampled=False)).plan.question
    workspace = Workspace(costs=question.costs, kv_tokens=8192, free=0)
    one = workspace.round(chain(7), 4, lambda _runner, _batch: True)
    assert one - workspace.round(chain(7, sampled=False), 4, lambda _runner, _batch: True) == 4 * 7 * SMALL.vocab * 4
    wide = tree(8, 8, 64)
    assert workspace.round(wide, 4, lambda _runner, _batch: False) >= workspace.round(wide, 4, lambda _r, _b: True)


def test_rounds_on_a_cpu_share_the_machine() -> None:
    assert cpu_memory_of(20 * GIB, ranks=2) == Memory(graphs=0, work=2 * GIB)


def test_a_containers_limit_is_its_memory(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal:       2048 kB\nMemFree:  1 kB\n")
    assert machine_memory(tmp_path) == 2048 * 1024
    limit = tmp_path / "sys/fs/cgroup/memory.max"
    limit.parent.mkdir(parents=True)
    for text, size in (("max\n", 2048 * 1024), ("1000\n", 1000)):
        limit.write_text(text)
        assert machine_memory(tmp_path) == size
    assert machine_memory() > GIB // 4


def test_a_size_a_model_does_not_give_is_named() -> None:
    whole = {"num_hidden_layers": 2, "hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8}
    with pytest.raises(ConfigError, match=r"vocab_size in config.json is None; accepted: a positive integer"):
        ModelShape.from_config(whole, dtype="float32")
    shape = ModelShape.from_config({**whole, "vocab_size": 9}, dtype="float32")
    assert (shape.head_dim, shape.kv_heads, shape.element_bytes) == (4, 2, 4)
