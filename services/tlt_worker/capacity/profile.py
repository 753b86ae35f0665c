"""
The device profile of an engine: attention backend, page size, data type and arms. Nothing else decides these. Pure.

The backends are those of SGLang 0.5.23 for models with multi-head attention (`get_default_attn_backend`), except that
trees keep the device's default backend if it can verify them: on Hopper, SGLang would give up FlashAttention 3 for all
rounds, although that backend has tree masks.
"""

from dataclasses import dataclass, replace

from tlt_common.domain.arm import Arm
from tlt_common.drafter.format import DrafterFormat
from tlt_common.errors import ConfigError
from tlt_worker.capacity.attention import ANY_HEADS, CPU, Attention, Heads, attention_for, stock_attention
from tlt_worker.capacity.drafting import arms_for
from tlt_worker.capacity.width import launch_width
from tlt_worker.engine_config import EngineConfig
from tlt_worker.model.families import Family


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """The device that an engine runs on."""

    kind: str
    """`cuda` or `cpu`."""
    generation: int = 0
    """Major compute capability of the oldest GPU; 0 on a CPU."""
    dtype: str = "bfloat16"
    """Data type in which it serves policies fastest."""

    @property
    def stock(self) -> Attention:
        """The backend that SGLang chooses here without speculation, and for chains."""
        return stock_attention(self.capability)

    @property
    def capability(self) -> int:
        """Major compute capability, or `CPU`."""
        return self.generation if self.kind == "cuda" else CPU


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceProfile:
    """Settings with which an engine runs on its device."""

    accelerator: Accelerator
    attention: Attention
    """Backend of every round, for target and drafter."""
    dtype: str
    """Data type of weights, activations and KV cache."""
    arms: tuple[Arm, ...]
    queries: int = 0
    """Tokens per request in one pass of a block drafter; 0 for other drafters."""
    family: Family | None = None
    """The model's row in the table of families; None if it has none or the profile is for any model."""
    warnings: tuple[str, ...] = ()
    """Warnings for the user, with the key to change."""

    @property
    def page_size(self) -> int | None:
        """Tokens per page of the KV cache. None uses SGLang's default for the backend."""
        return 1 if any(arm.topk > 1 for arm in self.arms) and self.accelerator.kind != "cpu" else None

    @property
    def width(self) -> int:
        """Number of KV cache slots per request that one round may write."""
        return max(launch_width(self.arms), self.queries)

    @property
    def is_float32(self) -> bool:
        """Whether it runs in float32 on a GPU, for which SGLang lacks many kernels."""
        return self.accelerator.kind == "cuda" and self.dtype == "float32"

    def variables(self) -> dict[str, str]:
        """
        Return the environment variables of SGLang's processes that the data type requires.

        In float32 every operator runs in torch, since SGLang's norms and rotary embeddings only have 16-bit kernels
        (`sgl_kernel` has no `RMSNorm<float>`). Triton would round the operands of products to 10 bits, as tensor cores
        do; three products restore them. Without tensor cores the kernel takes a minute to compile.
        """
        return {"SGLANG_FORCE_FUSED_OP_BACKEND": "native", "TRITON_F32_DEFAULT": "tf32x3"} if self.is_float32 else {}

    def arguments(self) -> dict[str, object]:
        """Return the SGLang arguments that this profile determines, for an engine with arms."""
        return {
            "attention_backend": str(self.attention),
            **({} if self.page_size is None else {"page_size": self.page_size}),
            **self._family_arguments(),
        }

    def _family_arguments(self) -> dict[str, object]:
        """
        Return the SGLang arguments that the model's family requires.

        A separate pool for sliding-window layers is not used, since drafts write rows of both pools at once. On a CPU,
        SGLang would lay out the experts of gpt-oss for GPU kernels, and its loader would then fail.
        """
        if self.family is None or not self.family.slides:
            return {}
        cpu: dict[str, object] = {"moe_runner_backend": "triton"} if self.accelerator.kind == "cpu" else {}
        return {"disable_hybrid_swa_memory": True, **cpu}

    def stock_arguments(self) -> dict[str, object]:
        """
        Return the same arguments for plain SGLang, without arms.

        On a GPU SGLang makes its own choice, which `Accelerator.stock` predicts. In float32 its choice would not start.
        """
        named = self.accelerator.kind == "cpu" or self.is_float32
        return {"attention_backend": str(self.attention), **self._family_arguments()} if named else {}


def profile_of(
    engine: EngineConfig,
    accelerator: Accelerator,
    *,
    family: Family | None = None,
    heads: Heads = ANY_HEADS,
    drafter: DrafterFormat | None = None,
) -> DeviceProfile:
    """
    Determine how an engine runs a model of a family on a device, with drafters of a format (None: EAGLE's).

    Default trees are dropped if the device's own backend or the family cannot verify them. Trees that the configuration
    names change the backend of all rounds instead, with a warning.

    Raises:
        ConfigError: No backend runs the model, field `engine.dtype`; or the configuration names trees that cannot be
            verified for this family, or arms that its drafters cannot run.
    """
    arms, dtype = arms_for(engine, accelerator.kind, drafter), engine.dtype or accelerator.dtype
    attention = attention_for(accelerator.capability, dtype, heads)
    profile = DeviceProfile(
        accelerator=accelerator,
        attention=attention,
        dtype=dtype,
        arms=arms,
        queries=0 if drafter is None else drafter.block_queries,
        family=family,
    )
    if profile.is_float32:
        warning = (
            f"engine.dtype is float32: attention runs on {attention} and every other operator in torch, for tests and "
            "comparisons; accepted for speed: bfloat16"
        )
        profile = replace(profile, warnings=(warning,))
    trees = [arm.name for arm in arms if arm.topk > 1]
    if trees and family is not None and not family.draws_trees:
        if engine.arms is not None:
            raise ConfigError(
                f"engine.arms names {trees[0]}; accepted for {family.title}, whose layers attend to a sliding window: "
                "off, chains and ngram arms",
                field="engine.arms",
            )
        return replace(profile, arms=tuple(arm for arm in arms if arm.topk == 1))
    if not trees or attention.verifies_trees:
        return profile
    if engine.arms is None:
        return replace(profile, arms=tuple(arm for arm in arms if arm.topk == 1))
    other = attention_for(accelerator.capability, dtype, heads, trees=True)
    warning = (
        f"engine.arms names trees ({', '.join(trees)}), which {attention} cannot verify: every round runs on "
        f"{other}, slower on this device; accepted without that: arms without trees"
    )
    return replace(profile, attention=other, warnings=(*profile.warnings, warning))
