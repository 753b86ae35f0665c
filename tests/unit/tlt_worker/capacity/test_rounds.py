"""Durations of rounds, calculated."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tlt_common.domain.arm import OFF, chain
from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_worker.capacity.rounds import Machine, RoundTime
from tlt_worker.commands.cards import CONFIGS, SHAPES, SPEEDS
from tlt_worker.commands.round_plan import planned_rounds
from tlt_worker.engine_config import EngineConfig

SEVEN = SHAPES["qwen2.5-7b"]


def test_a_plain_round_of_a_7b_policy_takes_what_is_published() -> None:
    """Published single-stream rates of 7B models in bfloat16 on an H100 are 150 to 200 tokens/s."""
    terms = Machine(speed=SPEEDS["h100"], shape=SEVEN).terms()
    assert terms.round_read_s == pytest.approx(7.1e9 * 2 / (3.35e12 * 0.93), rel=0.01)
    assert 1 / 200 < terms.round_s(OFF, 1, 500) < 1 / 150


def rounds_of_seven(model: dict[str, Any]) -> dict[str, RoundTime]:
    planned = planned_rounds(EngineConfig(), model, "h100", "bfloat16")
    return {each.drafter: each for each in planned if (each.drafts, each.batch) == (7, 1)}


@pytest.mark.parametrize(("model", "kind"), [("qwen2.5-7b", "eagle"), ("mimo-7b", "mtp")])
def test_a_reduced_head_takes_a_seventh_of_a_7b_round(model: str, kind: str) -> None:
    rounds = rounds_of_seven(CONFIGS[model])
    whole, reduced = rounds[f"{kind}, whole head"], rounds[kind]
    assert (whole.head_tokens, reduced.head_tokens) == (CONFIGS[model]["vocab_size"], 32_000)
    assert reduced.round_ms / whole.round_ms < 0.87
    assert reduced.draft_mb < whole.draft_mb / 2


def test_a_block_computes_its_head_once() -> None:
    rounds = rounds_of_seven(CONFIGS["qwen2.5-7b"])
    assert 0.9 < rounds["block"].round_ms / rounds["block, whole head"].round_ms < 1


def test_heads_that_are_small_or_drafters_own_are_not_reduced() -> None:
    assert "eagle3, whole head" not in rounds_of_seven(CONFIGS["qwen2.5-7b"])
    small = {**CONFIGS["mimo-7b"], "vocab_size": 32_000}
    assert rounds_of_seven(small).keys() == set(DrafterArchitecture)


@given(st.integers(1, 64), st.integers(1, 15))
def test_more_work_takes_more_time(batch: int, drafts: int) -> None:
    for shape in (SEVEN, SHAPES["qwen3-30b-a3b"]):
        terms = Machine(speed=SPEEDS["h100"], shape=shape).terms()
        seconds = terms.round_s(chain(drafts), batch, 0)
        assert seconds < terms.round_s(chain(drafts + 1), batch, 0)
        assert seconds < terms.round_s(chain(drafts), batch + 1, 0)
        assert seconds < terms.round_s(chain(drafts), batch, 1)
        assert terms.drafting_s(chain(drafts), batch, 0) < seconds - terms.round_s(OFF, batch, 0)


def test_a_token_reads_the_experts_that_compute_it() -> None:
    sparse = SHAPES["qwen3-30b-a3b"]
    assert sparse.active_parameters == pytest.approx(3.0e9, rel=0.15)
    assert sparse.read_parameters(1) == pytest.approx(sparse.active_parameters)
    assert sparse.read_parameters(10_000) == pytest.approx(sparse.parameters - sparse.vocabulary_parameters)
