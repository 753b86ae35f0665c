"""Sizes of models with and without experts, and of their drafters."""

import pytest

from tests.families import TYPES, written
from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_common.drafter.reading import format_of, standard_format
from tlt_common.errors import ConfigError
from tlt_worker.capacity.engine_plan import plan_on_gpus
from tlt_worker.capacity.memory.gpu_plan import Gpus
from tlt_worker.capacity.profile import Accelerator, profile_of
from tlt_worker.capacity.shape import ModelShape
from tlt_worker.commands.cards import CONFIGS, SHAPES, card
from tlt_worker.commands.plan_check import check_plans
from tlt_worker.engine_config import EngineConfig
from tlt_worker.model.families import FAMILIES, listed


@pytest.mark.parametrize(
    ("model", "billions"),
    [
        ("qwen2.5-7b", 7.62), ("qwen2.5-32b", 32.76), ("llama3-70b", 70.55), ("qwen3-30b-a3b", 30.53),
        ("glm-4.5-air", 106.85), ("gpt-oss-20b", 20.91),
    ],
)  # fmt: skip
def test_public_models_have_their_published_parameters(model: str, billions: float) -> None:
    """As their authors count them; GLM's without its layer for several tokens."""
    assert SHAPES[model].parameters / 1e9 == pytest.approx(billions, abs=0.01)


def test_a_rank_holds_its_share_and_all_of_what_is_not_split() -> None:
    shape = SHAPES["qwen3-30b-a3b"]
    whole, half, eighth = (shape.weight_bytes(ranks) for ranks in (1, 2, 8))
    split = shape.parameters - shape.vectors - 48 * 128 * 2048
    assert half == pytest.approx(whole - split * shape.element_bytes / 2, rel=1e-3)
    # 4 key-value heads are not split over 8 ranks: each has one.
    assert eighth > whole / 8 + shape.vectors * shape.element_bytes


@pytest.mark.parametrize("family", TYPES)
def test_a_drafter_is_dense_and_has_the_sizes_of_its_own_configuration(family: str) -> None:
    config = written(family)
    form = standard_format(DrafterArchitecture.EAGLE, config)
    own = form.config(config) | {"intermediate_size": 40, "num_key_value_heads": 1}
    shape = ModelShape.from_config(config, dtype="bfloat16", drafter=format_of(own, config))
    assert shape.drafter.parameters == sum(
        rows * (columns[0] if columns else 0) for rows, *columns in format_of(own, config).tensor_shapes().values()
    )
    assert (shape.drafter.intermediate, shape.drafter.kv_heads) == (40, 1)
    target = 2 * shape.layers * shape.kv_heads * shape.head_dim
    assert shape.kv_bytes(1) == 2 * (target + 2 * shape.drafter.head_dim)


def test_heads_of_a_drafter_divide_its_hidden_size() -> None:
    form = standard_format(DrafterArchitecture.EAGLE3, CONFIGS["glm-4.5-air"])
    assert (form.heads, form.kv_heads, form.head_dim) == (32, 8, 128)
    assert "partial_rotary_factor" not in form.rope


@pytest.mark.parametrize("model", CONFIGS)
def test_a_card_too_small_for_a_model_is_told(model: str) -> None:
    size, accelerator = card("l4")
    family = listed(CONFIGS[model])
    config = EngineConfig(arms=("off",))
    gpus = Gpus(bytes=size, shape=SHAPES[model], context_length=8192, trains=False)
    planned = plan_on_gpus(config, profile=profile_of(config, accelerator, family=family), gpus=gpus)
    assert planned.division is not None
    fits = SHAPES[model].weight_bytes(1) < size * 0.8
    assert (planned.division.table.unplanned == 0) == fits
    assert fits or planned.warnings


@pytest.mark.parametrize("family", [row for row in FAMILIES.values() if not row.draws_trees], ids=lambda row: row.title)
def test_trees_are_dropped_or_refused_where_they_are_not_exact(family: object) -> None:
    config = written("gpt_oss")
    assert listed(config) is family
    hopper = Accelerator(kind="cuda", generation=9)
    assert all(arm.topk == 1 for arm in profile_of(EngineConfig(), hopper, family=listed(config)).arms)
    with pytest.raises(ConfigError, match=r"engine\.arms names tree-3x4-8; accepted for gpt-oss, .*sliding window"):
        profile_of(EngineConfig(arms=("off", "tree-3x4-8")), hopper, family=listed(config))
    arguments = profile_of(EngineConfig(), hopper, family=listed(config)).arguments()
    assert arguments["disable_hybrid_swa_memory"] is True
    assert "moe_runner_backend" not in arguments, "SGLang's own choice on a GPU"


def test_a_plan_of_an_unlisted_model_is_not_checked() -> None:
    with pytest.raises(ConfigError, match="a MistralForCausalLM of model_type"):
        check_plans([{**written("llama"), "architectures": ["MistralForCausalLM"]}], EngineConfig(), "bfloat16")


def test_a_checkpoints_head_is_counted_with_its_experts() -> None:
    """GLM-4.5-Air's: 128 experts of 3 x 1408 x 4096, one shared one, 96 heads of 128, and the projection."""
    config = {**CONFIGS["glm-4.5-air"], "num_nextn_predict_layers": 1}
    form = standard_format(DrafterArchitecture.MTP, config)
    draft = ModelShape.from_config(config, dtype="bfloat16", drafter=form).drafter
    expert, attention = 3 * 1408 * 4096, 2 * 4096 * 128 * (96 + 8)
    assert draft.parameters == expert + attention + 2 * 4096**2
    assert draft.frozen == 128 * expert + 128 * 4096 + 128
    assert draft.chosen == 8 * expert
    assert (draft.layers, draft.captured, draft.tokens) == (1, 1, None)
