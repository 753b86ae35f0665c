"""
The device profile: attention backend, page size, data type and arms of an engine. Nothing else decides these. Pure.

The backends are those of SGLang 0.5.23 for models with multi-head attention (`get_default_attn_backend`), except that
trees do not change the backend where the device's own can verify them: on Hopper SGLang would leave FlashAttention 3
for every round, plain ones included, although that backend has tree masks.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from tlt_common.domain.arm import Arm
from tlt_common.errors import ConfigError
from tlt_worker.capacity.width import launch_width
from tlt_worker.engine_config import EngineConfig
from tlt_worker.model.families import Family

AMPERE, HOPPER, DATACENTER_BLACKWELL = 8, 9, 10
"""Major compute capabilities: A100, the first with bfloat16; H100 and H200; B200. Consumer Blackwell is 12."""


class Attention(StrEnum):
    """Attention backends, by SGLang's names."""

    AMX = "intel_amx"
    """On a CPU; the stand-in provides its operators."""
    FA3 = "fa3"
    FLASHINFER = "flashinfer"
    TRTLLM = "trtllm_mha"

    @property
    def verifies_trees(self) -> bool:
        """Whether it supports `speculative_eagle_topk` above 1."""
        return self is not Attention.TRTLLM


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """What an engine runs on."""

    kind: str
    """`cuda` or `cpu`."""
    generation: int = 0
    """Major compute capability of the oldest of its GPUs; 0 on a CPU."""
    dtype: str = "bfloat16"
    """Type in which it serves a policy fastest."""

    @property
    def stock(self) -> Attention:
        """The backend that SGLang chooses here without speculation, and for chains."""
        if self.kind == "cpu":
            return Attention.AMX
        return {HOPPER: Attention.FA3, DATACENTER_BLACKWELL: Attention.TRTLLM}.get(
            self.generation, Attention.FLASHINFER
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceProfile:
    """How an engine runs on its device."""

    accelerator: Accelerator
    attention: Attention
    """The backend of every round: target and drafter, drafting or not."""
    dtype: str
    """Data type of weights, activations and KV cache."""
    arms: tuple[Arm, ...]
    family: Family | None = None
    """The model's row of the table; None: it has none, or the profile is for any model."""
    warnings: tuple[str, ...] = ()
    """What a user should know, with the key to change."""

    @property
    def page_size(self) -> int | None:
        """Tokens per page of the KV cache; None: SGLang's default for the backend."""
        return 1 if any(arm.topk > 1 for arm in self.arms) and self.accelerator.kind != "cpu" else None

    @property
    def width(self) -> int:
        """KV cache slots of a request that one round may write."""
        return launch_width(self.arms)

    def arguments(self) -> dict[str, object]:
        """Return the arguments of SGLang that this profile decides, for an engine with arms."""
        return {
            "attention_backend": str(self.attention),
            **({} if self.page_size is None else {"page_size": self.page_size}),
            **self._family_arguments(),
        }

    def _family_arguments(self) -> dict[str, object]:
        """
        Return the arguments that the model's family needs.

        A pool of its own for layers with a window is not used: drafts write rows of both at once. On a CPU, SGLang
        would lay out the experts of gpt-oss for GPU kernels, and its loader would then fail.
        """
        if self.family is None or not self.family.slides:
            return {}
        cpu: dict[str, object] = {"moe_runner_backend": "triton"} if self.accelerator.kind == "cpu" else {}
        return {"disable_hybrid_swa_memory": True, **cpu}

    def stock_arguments(self) -> dict[str, object]:
        """
        Return the same for SGLang as its users run it here, without arms.

        On a GPU that is SGLang's own choice, made by SGLang: `Accelerator.stock` only says what to expect.
        """
        cpu = self.accelerator.kind == "cpu"
        return {"attention_backend": str(Attention.AMX), **self._family_arguments()} if cpu else {}


def profile_of(engine: EngineConfig, accelerator: Accelerator, *, family: Family | None = None) -> DeviceProfile:
    """
    Decide how an engine runs a model of a family on a device.

    Default trees are dropped where the device's own backend cannot verify them, or the family. Trees that the
    configuration names change the backend instead, of all rounds, with a warning.

    Raises:
        ConfigError: The configuration names trees that cannot be verified for this family.
    """
    arms, attention = engine.arms_on(accelerator.kind), accelerator.stock
    profile = DeviceProfile(
        accelerator=accelerator, attention=attention, dtype=engine.dtype or accelerator.dtype, arms=arms, family=family
    )
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
    warning = (
        f"engine.arms names trees ({', '.join(trees)}), which {attention} cannot verify: every round runs on "
        f"{Attention.FLASHINFER}, slower on this device; accepted without that: arms without trees"
    )
    return replace(profile, attention=Attention.FLASHINFER, warnings=(warning,))
