"""Which arms an engine's drafters can run, and what a block drafter's engine is launched and planned for."""

from typing import Any

import pytest

from tlt_common.domain.arm import OFF, arms_named, block, chain, ngram
from tlt_common.drafter.format import DrafterFormat
from tlt_common.drafter.reading import format_of
from tlt_common.errors import ConfigError
from tlt_worker.capacity.drafting import arms_for
from tlt_worker.capacity.engine_plan import plan_on_gpus
from tlt_worker.capacity.graphs.runner import Runner, Stage, runners_of
from tlt_worker.capacity.graphs.sharing import GraphSharing
from tlt_worker.capacity.memory.gpu_plan import Gpus
from tlt_worker.capacity.profile import Accelerator, profile_of
from tlt_worker.capacity.rounds import Machine
from tlt_worker.capacity.shape import ModelShape
from tlt_worker.commands.cards import SPEEDS, card
from tlt_worker.engine_config import EngineConfig

TARGET = {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": 151936, "hidden_size": 4096,
    "intermediate_size": 12288, "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8,
    "head_dim": 128, "max_position_embeddings": 40960, "rms_norm_eps": 1e-6, "rope_theta": 1e6, "hidden_act": "silu",
    "tie_word_embeddings": False,
}  # fmt: skip
BACKBONE = {**TARGET, "num_target_layers": 36}


def dflash(block_size: int = 16, layers: int = 5) -> DrafterFormat:
    """Return the format of a drafter like the published ones for Qwen3-8B."""
    nested = {"mask_token_id": 151669, "target_layer_ids": [1, 9, 17, 25, 33]}
    own: dict[str, Any] = {"block_size": block_size, "num_hidden_layers": layers, "dflash_config": nested}
    return format_of({**BACKBONE, **own, "architectures": ["DFlashDraftModel"]}, TARGET)


def dspark(block_size: int = 7) -> DrafterFormat:
    own: dict[str, Any] = {
        "block_size": block_size, "num_hidden_layers": 2, "mask_token_id": 151669, "target_layer_ids": [1, 17, 33],
        "markov_rank": 256, "markov_head_type": "vanilla", "architectures": ["Qwen3DSparkModel"],
    }  # fmt: skip
    return format_of({**BACKBONE, **own}, TARGET)


def test_a_formats_block_counts_dflashs_anchor_and_dsparks_drafts() -> None:
    assert (dflash().block_drafts, dflash().block_queries) == (15, 16)
    assert (dspark().block_drafts, dspark().block_queries) == (7, 7)


def test_the_default_arms_are_a_whole_block_and_half_of_it() -> None:
    for device in ("cpu", "cuda"):
        assert arms_for(EngineConfig(), device, dflash()) == (OFF, block(7), block(15), ngram(5))
        assert arms_for(EngineConfig(), device, dspark()) == (OFF, block(3), block(7), ngram(5))
    assert arms_for(EngineConfig(), "cpu", dspark(1)) == (OFF, block(1), ngram(5))
    assert arms_for(EngineConfig(), "cpu", dspark(40)) == (OFF, block(8), block(16), ngram(5))


@pytest.mark.parametrize("arm", ["chain-3", "chain-3-top1", "tree-3x4-8", "block-8"])
def test_arms_that_a_block_drafter_cannot_run_are_refused_by_name(arm: str) -> None:
    with pytest.raises(ConfigError, match=f"engine.arms names {arm}, .* blocks of 7 tokens; accepted: .*block-7"):
        arms_for(EngineConfig(arms=("off", "block-7", arm)), "cpu", dspark())


def test_other_drafters_run_no_blocks() -> None:
    with pytest.raises(ConfigError, match=r"names block-7, .* one token after the other; .*drafter_architecture block"):
        arms_for(EngineConfig(arms=("off", "block-7")), "cpu")
    named = ("off", "chain-3", "ngram-4")
    assert arms_for(EngineConfig(arms=named), "cpu") == arms_named(named)


def test_an_engine_is_launched_with_room_for_the_drafters_own_block() -> None:
    config = EngineConfig(arms=("off", "block-3"))
    assert profile_of(config, Accelerator(kind="cpu"), drafter=dflash()).width == 16
    assert profile_of(config, Accelerator(kind="cpu"), drafter=dspark()).width == 7


def test_all_blocks_share_one_pass_of_the_drafter_and_verification_with_arms_as_long() -> None:
    whole, half = runners_of(block(15)), runners_of(block(7))
    assert whole[1] == half[1] == Runner(stage=Stage.DRAFT, draft_tokens=0, is_block=True)
    assert half[0] == runners_of(ngram(7))[0]


def test_a_blocks_graph_has_a_row_of_logits_for_each_of_its_queries() -> None:
    sizes = {"block-7": {"verify": [1, 4], "draft": [1, 4]}}
    assert GraphSharing(sizes=sizes, queries=16).logit_rows() == 64
    assert GraphSharing(sizes=sizes, queries=7).logit_rows() == 32


def test_a_plan_counts_every_layer_of_the_drafter_and_its_markov_head() -> None:
    deep, shallow, markov = (
        ModelShape.from_config(TARGET, dtype="bfloat16", drafter=form)
        for form in (dflash(), dflash(layers=2), dspark())
    )
    layer = 4096 * 128 * 2 * (32 + 8) + 3 * 4096 * 12288
    assert deep.drafter.parameters - shallow.drafter.parameters == 3 * layer
    assert markov.drafter.parameters == 2 * layer + 3 * 4096 * 4096 + 2 * 151936 * 256
    assert deep.kv_bytes(1) - shallow.kv_bytes(1) == 3 * 2 * 8 * 128 * 2


def test_a_block_reads_its_layers_once_and_a_chain_for_each_draft() -> None:
    blocks, tokens = (
        Machine(speed=SPEEDS["h100"], shape=ModelShape.from_config(TARGET, dtype="bfloat16", drafter=form)).terms()
        for form in (dflash(), None)
    )
    one, many = (blocks.parts(block(drafts), 1, 0) for drafts in (7, 15))
    assert one["draft_fixed_s"] == many["draft_fixed_s"] == blocks.draft_fixed_s
    assert many["draft_token_s"] == pytest.approx(14 / 6 * one["draft_token_s"])
    assert tokens.parts(chain(14), 1, 0)["draft_fixed_s"] == pytest.approx(14 * tokens.draft_fixed_s)


def test_a_gpu_plans_graphs_for_a_block_drafter() -> None:
    memory, accelerator = card("h100")
    form = dflash()
    profile = profile_of(EngineConfig(), accelerator, drafter=form)
    shape = ModelShape.from_config(TARGET, dtype=profile.dtype, drafter=form)
    planned = plan_on_gpus(EngineConfig(), profile=profile, gpus=Gpus(bytes=memory, shape=shape, context_length=8192))
    assert planned.captures(block(15))["draft"] == planned.captures(block(7))["draft"] != ()
    assert planned.max_batch[block(15)] >= 16
