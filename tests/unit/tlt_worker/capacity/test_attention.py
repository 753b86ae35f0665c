"""Which backend runs which model on which device."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from tlt_common.domain.arm import OFF, chain, tree
from tlt_common.errors import ConfigError
from tlt_worker.capacity.attention import (
    AMPERE,
    CPU,
    DATACENTER_BLACKWELL,
    HALF,
    HOPPER,
    Attention,
    Heads,
    attention_for,
    why_not,
)
from tlt_worker.capacity.engine_plan import plan_on_gpus
from tlt_worker.capacity.memory.gpu_plan import Gpus
from tlt_worker.capacity.profile import Accelerator, profile_of
from tlt_worker.commands.cards import SHAPES, card
from tlt_worker.engine_config import EngineConfig

TURING, CONSUMER = 7, 12
GPU_GENERATIONS = (TURING, AMPERE, HOPPER, DATACENTER_BLACKWELL, CONSUMER)


@pytest.mark.parametrize("generation", GPU_GENERATIONS)
@pytest.mark.parametrize("trees", [False, True])
def test_float32_runs_on_tritons_kernels_on_every_gpu(generation: int, *, trees: bool) -> None:
    """FlashAttention 3, FlashInfer and TensorRT-LLM have kernels of two bytes only."""
    assert attention_for(generation, "float32", Heads(), trees=trees) is Attention.TRITON


@pytest.mark.parametrize(
    ("generation", "heads", "expected"),
    [
        (HOPPER, Heads(), "fa3"),
        (HOPPER, Heads(head_dim=96), "fa3"),
        (HOPPER, Heads(head_dim=512), "flashinfer"),
        (HOPPER, Heads(has_sinks=True), "fa3"),
        (AMPERE, Heads(), "flashinfer"),
        (AMPERE, Heads(head_dim=96), "triton"),
        (AMPERE, Heads(head_dim=80), "triton"),
        (AMPERE, Heads(has_sinks=True), "triton"),
        (CONSUMER, Heads(head_dim=64, has_sinks=True), "triton"),
        (DATACENTER_BLACKWELL, Heads(), "trtllm_mha"),
        (DATACENTER_BLACKWELL, Heads(has_sinks=True), "trtllm_mha"),
        (DATACENTER_BLACKWELL, Heads(head_dim=80), "triton"),
        (CPU, Heads(head_dim=16), "intel_amx"),
    ],
)
@pytest.mark.parametrize("dtype", sorted(HALF))
def test_a_model_runs_on_the_devices_own_backend_if_that_can(
    generation: int, heads: Heads, expected: str, dtype: str
) -> None:
    assert attention_for(generation, dtype, heads) == expected


def test_trees_leave_a_backend_that_cannot_verify_them_for_one_that_can_all_else() -> None:
    assert attention_for(DATACENTER_BLACKWELL, "bfloat16", Heads(), trees=True) is Attention.FLASHINFER
    assert attention_for(DATACENTER_BLACKWELL, "bfloat16", Heads(has_sinks=True), trees=True) is Attention.TRITON


@pytest.mark.parametrize("generation", GPU_GENERATIONS)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("head_dim", [16, 64, 80, 96, 128, 192, 256])
@pytest.mark.parametrize("arms", [(OFF,), (OFF, chain(3)), (tree(3, 4, 12),)])
def test_a_profile_names_a_backend_that_lacks_nothing_or_is_refused(
    generation: int, dtype: str, head_dim: int, arms: tuple[object, ...]
) -> None:
    config = EngineConfig.model_validate({"dtype": dtype, "arms": tuple(arm.name for arm in arms)})  # type: ignore[attr-defined]
    heads, accelerator = Heads(head_dim=head_dim), Accelerator(kind="cuda", generation=generation)
    if dtype == "float32" and head_dim > 128 and generation != DATACENTER_BLACKWELL:
        with pytest.raises(ConfigError, match="triton in float32 takes heads of at most 128"):
            profile_of(config, accelerator, heads=heads)
        return
    found = profile_of(config, accelerator, heads=heads)
    trees = any(arm.topk > 1 for arm in found.arms)
    assert not why_not(found.attention, generation, dtype, heads, trees=trees)


def test_a_refusal_names_what_each_backend_lacks() -> None:
    with pytest.raises(ConfigError) as refused:
        attention_for(HOPPER, "float32", Heads(head_dim=256))
    assert "fa3 has no float32 kernels; flashinfer has no float32 kernels; triton in float32" in refused.value.message
    assert "accepted: bfloat16 or float16" in refused.value.message
    assert refused.value.field == "engine.dtype"


def test_heads_are_read_from_the_models_configuration() -> None:
    sizes = {"hidden_size": 4096, "num_attention_heads": 32}
    assert Heads.from_config(sizes) == Heads(head_dim=128)
    assert Heads.from_config(
        {**sizes, "head_dim": 64, "architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss"}
    ) == Heads(head_dim=64, has_sinks=True)


def test_float32_on_a_gpu_takes_operators_that_exist_and_products_that_are_exact() -> None:
    float32 = EngineConfig(dtype="float32")
    profile = profile_of(float32, Accelerator(kind="cuda", generation=HOPPER))
    assert profile.variables() == {"SGLANG_FORCE_FUSED_OP_BACKEND": "native", "TRITON_F32_DEFAULT": "tf32x3"}
    assert profile.stock_arguments() == {"attention_backend": "triton"}, "the other side of a comparison starts too"
    assert "engine.dtype is float32" in profile.warnings[0]
    for other in (Accelerator(kind="cpu"), Accelerator(kind="cuda", generation=HOPPER)):
        config = float32 if other.kind == "cpu" else EngineConfig()
        assert not profile_of(config, other).variables()


def test_tritons_tables_are_planned() -> None:
    size, accelerator = card("h200")
    gpus = Gpus(bytes=size, shape=SHAPES["qwen2.5-7b"], context_length=4096)
    sizes = {}
    for dtype in ("bfloat16", "float32"):
        config = EngineConfig(dtype=dtype, arms=("off", "chain-3"))
        plan = plan_on_gpus(config, profile=profile_of(config, accelerator), gpus=gpus)
        sizes[plan.profile.attention] = plan.plan.bytes
    assert sizes[Attention.TRITON] > sizes[Attention.FA3]


def sglang(path: str) -> str:
    spec = find_spec("sglang")
    assert spec is not None
    assert spec.origin is not None
    return (Path(spec.origin).parent / path).read_text()


def test_sglang_drafts_on_these_backends_and_not_on_torchs_own() -> None:
    """Read in its source, since this module's table rests on it."""
    source = sglang("srt/speculative/draft_utils.py")
    for name in ("decode", "prefill"):
        taken = set(re.findall(rf'"(\w+)": self\._create_\w+_{name}_backend', source))
        assert {attention.value for attention in Attention} <= taken
        assert "torch_native" not in taken


def test_sglang_reads_the_variables_that_float32_needs() -> None:
    assert "SGLANG_FORCE_FUSED_OP_BACKEND" in sglang("kernels/fused_op.py")
    spec = find_spec("triton")
    assert spec is not None
    assert spec.origin is not None
    assert "TRITON_F32_DEFAULT" in (Path(spec.origin).parent / "knobs.py").read_text()
    assert '"GptOssForCausalLM"' in sglang("srt/configs/model_config.py")
