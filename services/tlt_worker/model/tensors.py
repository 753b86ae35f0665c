"""Names and shapes of a model's tensors, derived from its config.json. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from tlt_common.weights.tied_head import EMBEDDING, HEAD, is_tied
from tlt_worker.model.families import Experts, Family, Spelling, expert_count, head_size, kv_heads, sparse_layers

Json = Mapping[str, Any]
Shapes = dict[str, tuple[int, ...]]
_LAYERS, _DERIVED = "model.layers.", ".rotary_emb."


def expected_tensors(config: Json, family: Family) -> Shapes:
    """Return the shape of every tensor of a model with this config.json, by its name in transformers."""
    hidden, whole = config["hidden_size"], (config["vocab_size"], config["hidden_size"])
    attention, dense = _attention(config, family), _mlp("mlp", config["intermediate_size"], hidden)
    sparse = {} if family.experts is None else _experts(config, family.experts)
    with_experts = set(sparse_layers(config, family.experts))
    found: Shapes = {EMBEDDING: whole}
    for number in range(config["num_hidden_layers"]):
        layer = attention | (sparse if number in with_experts else dense)
        found |= {f"model.layers.{number}.{name}": shape for name, shape in layer.items()}
    return found | {"model.norm.weight": (hidden,)} | ({} if is_tied(config) else {HEAD: whole})


def unexpected(names: Iterable[str], expected: Shapes, config: Json, family: Family) -> list[str]:
    """Return, in the given order, the tensors of layers that a model with this config.json lacks."""
    first = config["num_hidden_layers"]
    own = range(first, first + int(config.get(family.own_drafter) or 0)) if family.own_drafter else ()
    skipped = tuple(f"{_LAYERS}{number}." for number in own)
    return [
        name
        for name in names
        if name.startswith(_LAYERS) and name not in expected and not name.startswith(skipped) and _DERIVED not in name
    ]


def _attention(config: Json, family: Family) -> Shapes:
    """Return one layer's attention and norms."""
    hidden, size = config["hidden_size"], head_size(config)
    heads = config["num_attention_heads"]
    queries, keys = heads * size, kv_heads(config) * size
    rows = {"q": queries, "k": keys, "v": keys}
    layer: Shapes = {f"self_attn.{name}_proj.weight": (count, hidden) for name, count in rows.items()}
    layer |= {
        "self_attn.o_proj.weight": (hidden, queries),
        "input_layernorm.weight": (hidden,),
        "post_attention_layernorm.weight": (hidden,),
    }
    if config.get(family.norms_heads) if isinstance(family.norms_heads, str) else family.norms_heads:
        layer |= {"self_attn.q_norm.weight": (size,), "self_attn.k_norm.weight": (size,)}
    if family.always_biased or config.get("attention_bias"):
        layer |= {f"self_attn.{name}_proj.bias": (count,) for name, count in rows.items()}
    if family.is_output_biased and not family.always_biased and config.get("attention_bias"):
        layer["self_attn.o_proj.bias"] = (hidden,)
    if family.has_sinks:
        layer["self_attn.sinks"] = (heads,)
    return layer


def _mlp(prefix: str, inner: int, hidden: int) -> Shapes:
    return {
        f"{prefix}.gate_proj.weight": (inner, hidden),
        f"{prefix}.up_proj.weight": (inner, hidden),
        f"{prefix}.down_proj.weight": (hidden, inner),
    }


def _experts(config: Json, experts: Experts) -> Shapes:
    """Return one layer's router and experts."""
    hidden, inner, count = config["hidden_size"], config[experts.inner], int(expert_count(config, experts))
    found: Shapes = {f"{experts.router}.weight": (count, hidden)}
    if experts.is_router_biased:
        found[f"{experts.router}.bias"] = (count,)
    if experts.correction:
        found[experts.correction] = (count,)
    if experts.spelling is Spelling.STACKED:
        found |= {
            f"{experts.prefix}.gate_up_proj": (count, hidden, 2 * inner),
            f"{experts.prefix}.gate_up_proj_bias": (count, 2 * inner),
            f"{experts.prefix}.down_proj": (count, inner, hidden),
            f"{experts.prefix}.down_proj_bias": (count, hidden),
        }
    else:
        for number in range(count):
            found |= _mlp(f"{experts.prefix}.{number}", inner, hidden)
    if experts.shared and (shared := config.get(experts.shared)):
        found |= _mlp("mlp.shared_experts", inner * shared, hidden)
    return found
