"""
The table of supported model families and their features. Pure.

The start-up check, the memory plan, `make families` and docs/models.md read it; families that are not in it are
refused, unless `engine.allow_unlisted` is set.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from tlt_common.drafter.architecture import DrafterArchitecture

Json = Mapping[str, Any]


class Spelling(StrEnum):
    """How a checkpoint stores the experts of a layer."""

    SEPARATE = "separate"
    """Each projection of each expert is a tensor: `experts.0.gate_proj.weight`."""
    STACKED = "stacked"
    """A tensor holds a projection of all experts, inputs first: `experts.gate_up_proj` [experts, hidden, 2 * inner]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """The mixture of experts in a family's layers: keys of config.json, and names within a layer."""

    count: tuple[str, ...]
    """Alternative keys for the number of routed experts; a configuration has one of them."""
    inner: str
    """Key for the intermediate size of an expert."""
    router: str
    """Name of the router's weight, [experts, hidden], without `.weight`."""
    is_router_biased: bool = False
    correction: str = ""
    """Name of a bias on the router's choice that is not trained by gradients; empty if there is none."""
    prefix: str = "mlp.experts"
    spelling: Spelling = Spelling.SEPARATE
    shared: str = ""
    """Key for the number of shared experts, which process every token; empty if there are none."""
    first_dense: str = ""
    """Key for the number of dense layers before the first layer with experts; empty if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A row of the table: the properties of a family of decoders and its supported features."""

    title: str
    architecture: str
    """Name of the model's class, in `architectures` of config.json."""
    model_type: str
    """`model_type` in config.json, by which transformers chooses its configuration class."""
    models: str
    """Models of this family, for the documentation."""
    always_biased: bool = False
    """Whether queries, keys and values always have biases."""
    is_output_biased: bool = True
    """Whether `attention_bias` adds a bias to the attention's output, too."""
    sizes_heads: bool = True
    """Whether SGLang supports a `head_dim` other than hidden_size / heads."""
    norms_heads: bool | str = False
    """Whether queries and keys are normalized, or the key that determines it."""
    experts: Experts | None = None
    own_drafter: str = ""
    """Key for the number of layers after the last one that predict further tokens (MTP): the checkpoint's own head."""
    has_sinks: bool = False
    """Whether each attention head has an attention sink."""
    slides: bool = False
    """Whether SGLang supports the windows that `layer_types` names."""
    turns_part: bool = False
    """Whether SGLang supports `partial_rotary_factor`."""
    states: tuple[str, ...] = ()
    """Sizes that config.json must specify, since transformers' defaults depend on the family."""
    tried: tuple[str, ...] = ()
    """Additional keys of config.json whose values SGLang follows; `make families` tries two values of each."""
    fixed: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """Keys that SGLang or transformers ignores, with the values that both assume."""
    wide_workspace: bool = False
    """Whether SGLang gives its attention FlashInfer's larger workspace."""
    drafters: tuple[DrafterArchitecture, ...] = (
        DrafterArchitecture.EAGLE,
        DrafterArchitecture.EAGLE3,
        DrafterArchitecture.BLOCK,
    )
    """Kinds of drafters that can be served and trained."""
    draws_trees: bool = True
    """Whether trees are verified exactly. SGLang counts a window in cache rows, which include a tree's branches."""
    note: str = ""
    """Limitations, or what is not tested on a CPU and why; for the documentation."""


_ROWS = (
    Family(
        title="Llama",
        architecture="LlamaForCausalLM",
        model_type="llama",
        models="Llama 2, 3.x",
        fixed={"mlp_bias": (False,)},
    ),
    Family(
        title="Qwen2",
        architecture="Qwen2ForCausalLM",
        model_type="qwen2",
        models="Qwen2, Qwen2.5, DeepSeek-R1-Distill-Qwen",
        always_biased=True,
        sizes_heads=False,
        states=("num_key_value_heads",),
        wide_workspace=True,
    ),
    Family(
        title="Qwen3",
        architecture="Qwen3ForCausalLM",
        model_type="qwen3",
        models="Qwen3 0.6B to 32B",
        norms_heads=True,
        states=("num_key_value_heads", "head_dim"),
        wide_workspace=True,
    ),
    Family(
        title="Qwen3-MoE",
        architecture="Qwen3MoeForCausalLM",
        model_type="qwen3_moe",
        models="Qwen3-30B-A3B, Qwen3-235B-A22B",
        norms_heads=True,
        states=("num_key_value_heads", "head_dim"),
        wide_workspace=True,
        experts=Experts(
            count=("num_experts", "num_local_experts"),
            inner="moe_intermediate_size",
            router="mlp.gate",
        ),
        tried=("moe_intermediate_size", "norm_topk_prob", "num_experts", "num_experts_per_tok", "num_local_experts"),
        fixed={
            "tie_word_embeddings": (False,),
            "mlp_only_layers": ([],),
            "decoder_sparse_step": (1,),
            "use_sliding_window": (False,),
            "use_qk_norm": (True,),
            "qkv_bias": (False,),
            "shared_expert_intermediate_size": (0,),
        },
    ),
    Family(
        title="GLM-4 MoE",
        architecture="Glm4MoeForCausalLM",
        model_type="glm4_moe",
        models="GLM-4.5, GLM-4.5-Air, GLM-4.6",
        is_output_biased=False,
        norms_heads="use_qk_norm",
        turns_part=True,
        own_drafter="num_nextn_predict_layers",
        states=("num_key_value_heads", "head_dim"),
        experts=Experts(
            count=("n_routed_experts",),
            inner="moe_intermediate_size",
            router="mlp.gate",
            correction="mlp.gate.e_score_correction_bias",
            shared="n_shared_experts",
            first_dense="first_k_dense_replace",
        ),
        tried=(
            "first_k_dense_replace",
            "moe_intermediate_size",
            "n_group",
            "n_routed_experts",
            "n_shared_experts",
            "norm_topk_prob",
            "num_experts_per_tok",
            "num_nextn_predict_layers",
            "partial_rotary_factor",
            "routed_scaling_factor",
            "topk_group",
            "use_qk_norm",
        ),
        fixed={"tie_word_embeddings": (False,)},
        drafters=tuple(DrafterArchitecture),
        note="updates need not have the checkpoint's head, and leave it as it is",
    ),
    Family(
        title="MiMo",
        architecture="MiMoForCausalLM",
        model_type="mimo",
        models="MiMo-7B-Base, -SFT, -RL",
        always_biased=True,
        sizes_heads=False,
        own_drafter="num_nextn_predict_layers",
        states=("num_key_value_heads",),
        wide_workspace=True,
        tried=("num_nextn_predict_layers",),
        drafters=(DrafterArchitecture.EAGLE, DrafterArchitecture.MTP),
        note="SGLang's class returns no states of single layers, which EAGLE-3 and block drafters would read; updates "
        "need not have the checkpoint's head, and leave it as it is",
    ),
    Family(
        title="gpt-oss",
        architecture="GptOssForCausalLM",
        model_type="gpt_oss",
        models="gpt-oss-20b, gpt-oss-120b, in bfloat16",
        slides=True,
        draws_trees=False,
        has_sinks=True,
        states=("num_key_value_heads", "head_dim"),
        experts=Experts(
            count=("num_local_experts",),
            inner="intermediate_size",
            router="mlp.router",
            is_router_biased=True,
            spelling=Spelling.STACKED,
        ),
        tried=("num_experts_per_tok", "num_local_experts", "sliding_window", "swiglu_limit"),
        # SGLang reads the factor of the sigmoid under the second name, transformers under the first.
        fixed={"swiglu_alpha": (1.702,), "hidden_act_alpha": (1.702,), "tie_word_embeddings": (False,)},
        note="MXFP4 has no kernels on a CPU",
    ),
)

FAMILIES: Mapping[str, Family] = MappingProxyType({row.architecture: row for row in _ROWS})
"""By the name of the model's class, `architectures` in config.json."""


def listed(config: Json) -> Family | None:
    """Return the row of a model's `config.json`, or None if it is not in the table."""
    names = config.get("architectures")
    name = names[0] if isinstance(names, list) and len(names) == 1 else None
    family = FAMILIES.get(name) if isinstance(name, str) else None
    return family if family is not None and config.get("model_type") == family.model_type else None


def head_size(config: Json) -> int:
    """Return the size of an attention head."""
    return int(config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"])


def kv_heads(config: Json) -> int:
    """Return the number of key-value heads."""
    return int(config.get("num_key_value_heads") or config["num_attention_heads"])


def expert_count(config: Json, experts: Experts) -> Any:
    """Return the number of routed experts in config.json, or None if it has none."""
    return next((config[name] for name in experts.count if config.get(name) is not None), None)


def sparse_layers(config: Json, experts: Experts | None) -> tuple[int, ...]:
    """Return the layers with experts, ascending."""
    if experts is None:
        return ()
    first = int(config.get(experts.first_dense) or 0) if experts.first_dense else 0
    return tuple(range(first, int(config["num_hidden_layers"])))
