"""
Attention backends of SGLang 0.5.23: what each supports, and which one runs a model on a device. Pure.

One backend serves target and drafter in every round: prompts, plain rounds, verification, the drafter's steps and its
extend. A feature that it lacks in any of them is unsupported. Sources: SGLang's `arg_groups/model_override_base.py`
(`get_default_attn_backend`), `speculative/draft_utils.py`, `layers/attention/*_backend.py` and
`kernels/ops/attention/extend_attention.py`; FlashInfer's `DISPATCH_HEAD_DIM`. Torch's own backend takes any type, but
SGLang has no drafting on it.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tlt_common.errors import ConfigError
from tlt_worker.model.families import head_size, listed

CPU = -1
"""In place of a compute capability."""
AMPERE, HOPPER, DATACENTER_BLACKWELL = 8, 9, 10
"""Major compute capabilities: A100, the first with bfloat16; H100 and H200; B200. Consumer Blackwell is 12."""

HALF = frozenset({"bfloat16", "float16"})


class Attention(StrEnum):
    """Attention backends, by SGLang's names."""

    AMX = "intel_amx"
    """Used on a CPU; the stand-in provides its operators."""
    FA3 = "fa3"
    FLASHINFER = "flashinfer"
    TRTLLM = "trtllm_mha"
    TRITON = "triton"
    """Compiled on first use, for any type."""

    @property
    def verifies_trees(self) -> bool:
        """Whether it supports `speculative_eagle_topk` above 1."""
        return _ABLE[self].trees


@dataclass(frozen=True, slots=True, kw_only=True)
class Heads:
    """Properties of a model's attention that a backend must support."""

    head_dim: int = 128
    has_sinks: bool = False

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "Heads":
        """Read a `config.json` whose sizes have been checked."""
        family = listed(config)
        return cls(head_dim=head_size(config), has_sinks=family is not None and family.has_sinks)


ANY_HEADS = Heads()
"""Heads that every backend takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Abilities:
    """Limits of a backend; None means unlimited."""

    generations: Collection[int] | None = None
    dtypes: Collection[str] | None = HALF
    head_dims: Collection[int] | None = None
    float32_head_dim: int | None = None
    """Largest head size in float32, on devices before Blackwell."""
    trees: bool = True
    sinks: bool = True


_ABLE = {
    Attention.AMX: _Abilities(generations=(CPU,), dtypes=None),
    Attention.FA3: _Abilities(generations=(HOPPER,), head_dims=range(8, 257, 8)),
    Attention.FLASHINFER: _Abilities(head_dims=(64, 128, 256, 512), sinks=False),
    Attention.TRTLLM: _Abilities(generations=(DATACENTER_BLACKWELL,), head_dims=(64, 128, 256), trees=False),
    # A tile of its extend kernel in float32 takes 196,608 bytes of an H100's shared memory for heads of 128 and 98,304
    # of an L4's; for heads of 256 it exceeds both.
    Attention.TRITON: _Abilities(dtypes=None, float32_head_dim=128),
}


def stock_attention(generation: int) -> Attention:
    """Return the backend that SGLang chooses without speculation and for chains; `CPU` for none."""
    chosen = {CPU: Attention.AMX, HOPPER: Attention.FA3, DATACENTER_BLACKWELL: Attention.TRTLLM}
    return chosen.get(generation, Attention.FLASHINFER)


def why_not(attention: Attention, generation: int, dtype: str, heads: Heads, *, trees: bool) -> str:
    """Return why a backend cannot run the model, or an empty string if it can."""
    able = _ABLE[attention]
    if able.generations is not None and generation not in able.generations:
        return f"{attention} is not for devices of compute capability {generation}"
    if able.dtypes is not None and dtype not in able.dtypes:
        return f"{attention} has no {dtype} kernels"
    if able.head_dims is not None and heads.head_dim not in able.head_dims:
        return f"{attention} has no kernels for heads of {heads.head_dim}"
    limit = able.float32_head_dim
    if dtype not in HALF and limit is not None and heads.head_dim > limit and generation != DATACENTER_BLACKWELL:
        return f"{attention} in {dtype} takes heads of at most {limit} on this device, not {heads.head_dim}"
    if heads.has_sinks and not able.sinks:
        return f"{attention} has no attention sinks"
    return f"{attention} cannot verify trees" if trees and not able.trees else ""


def attention_for(generation: int, dtype: str, heads: Heads, *, trees: bool = False) -> Attention:
    """
    Return SGLang's own choice for a device, or the next best backend that can run the model.

    Raises:
        ConfigError: No backend can run it; field `engine.dtype`.
    """
    reasons: list[str] = []
    # In SGLang's order of preference.
    others: tuple[Attention, ...] = () if generation == CPU else (Attention.FLASHINFER, Attention.TRITON)
    for attention in dict.fromkeys((stock_attention(generation), *others)):
        if not (why := why_not(attention, generation, dtype, heads, trees=trees)):
            return attention
        reasons.append(why)
    raise ConfigError(
        f"engine.dtype {dtype} cannot run this model on this device: {'; '.join(reasons)}; accepted: bfloat16 or "
        "float16",
        field="engine.dtype",
    )
