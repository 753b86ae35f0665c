"""
Prediction heads in checkpoints (MTP): one row per supported family of policies.

A head is two norms, a projection of [embedding of the next token ; last state], one decoder layer like the policy's own
and a final norm; embedding and vocabulary head are the policy's. Families differ in names, in the order of the two
inputs and in the layer. Written against SGLang 0.5.23: `models/glm4_moe_nextn.py`, `models/mimo_mtp.py`. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tlt_common.drafter.tensors import LAYER

Json = Mapping[str, Any]

COUNT = "num_nextn_predict_layers"
"""Key of config.json for the number of layers that predict further tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadExperts:
    """Keys of config.json for the experts in a head's layer, and names within the layer."""

    count: str
    inner: str
    shared: str
    router: str
    correction: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The head in a family's checkpoints."""

    architecture: str
    """Name of the policy's class, in `architectures` of its config.json."""
    model_type: str
    model_class: str
    """SGLang's class that runs the head, or ours with the same name."""
    prefix: str
    """Prefix of its tensors' names, given the number of the policy's layers."""
    names: Mapping[str, str]
    """Its tensors outside the layer by our names, without `.weight`."""
    state_first: bool = False
    """Whether the projection reads the state before the embedding."""
    skips_first: bool = False
    """Whether the embedding at position 0 counts as zero."""
    always_biased: bool = False
    """Whether queries, keys and values always have biases; otherwise `attention_bias` decides."""
    norms_heads: str = ""
    """Key that determines whether queries and keys are normed; empty if they are not."""
    turns_part: bool = False
    """Whether a part of each attention head is rotated."""
    experts: HeadExperts | None = None
    copies: tuple[str, ...] = ()
    """Names within the head of unused copies of the policy's embedding and head."""


_ROWS = (
    Head(
        architecture="Glm4MoeForCausalLM",
        model_type="glm4_moe",
        model_class="Glm4MoeForCausalLMNextN",
        prefix="model.layers.{layers}.",
        names=MappingProxyType({"enorm": "enorm", "hnorm": "hnorm", "fc": "eh_proj", "norm": "shared_head.norm"}),
        norms_heads="use_qk_norm",
        turns_part=True,
        experts=HeadExperts(
            count="n_routed_experts",
            inner="moe_intermediate_size",
            shared="n_shared_experts",
            router="mlp.gate",
            correction="mlp.gate.e_score_correction_bias",
        ),
        copies=("embed_tokens.weight", "shared_head.head.weight"),
    ),
    Head(
        architecture="MiMoForCausalLM",
        model_type="mimo",
        model_class="MiMoMTP",
        prefix="model.mtp_layers.0.",
        names=MappingProxyType({
            "enorm": "token_layernorm", "hnorm": "hidden_layernorm", "fc": "input_proj", "norm": "final_layernorm",
        }),
        state_first=True,
        skips_first=True,
        always_biased=True,
    ),
)  # fmt: skip

HEADS: Mapping[str, Head] = MappingProxyType({row.architecture: row for row in _ROWS})
"""By the name of the policy's class."""


def head_of(target: Json) -> Head | None:
    """Return the row of a policy's family, or None if its checkpoints have no supported head."""
    names = target.get("architectures")
    name = names[0] if isinstance(names, list) and len(names) == 1 else None
    return HEADS.get(name) if isinstance(name, str) else None


def checkpoint_name(head: Head, layers: int, name: str) -> str:
    """Return the checkpoint's name of a head tensor, given our name and the number of the policy's layers."""
    prefix = head.prefix.format(layers=layers)
    if name.startswith(LAYER):
        return prefix + name.removeprefix(LAYER)
    outer, _, kind = name.rpartition(".")
    return f"{prefix}{head.names[outer]}.{kind}"


def own_name(head: Head, layers: int, name: str) -> str:
    """Return our name of a head tensor, given the checkpoint's. Other names are returned unchanged."""
    prefix = head.prefix.format(layers=layers)
    if not name.startswith(prefix):
        return name
    rest = name.removeprefix(prefix)
    for ours, theirs in head.names.items():
        if rest.startswith(f"{theirs}."):
            return ours + rest.removeprefix(theirs)
    return LAYER + rest
