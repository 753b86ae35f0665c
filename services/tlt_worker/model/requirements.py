"""Checks whether an engine can run a model, from its config.json. Pure."""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tlt_common.drafter.rope import rope_parameters, rope_refusal
from tlt_common.errors import ConfigError
from tlt_worker.engine_config import EngineConfig
from tlt_worker.model.families import (
    FAMILIES,
    Experts,
    Family,
    expert_count,
    head_size,
    kv_heads,
    listed,
    sparse_layers,
)
from tlt_worker.model.keys import unknown_keys
from tlt_worker.model.routing import Routing

Json = Mapping[str, Any]

MAX_ROUTED_BYTES = 192 * 2**20
"""Maximum bytes of one response's routed experts, so that they fit into a message."""
ACCEPTED = f"a {', '.join(FAMILIES)} checkpoint in bfloat16, float16 or float32"


class _Stated(BaseModel):
    """Types of the other keys that transformers reads. With other types it would fail when the engine starts."""

    model_config = ConfigDict(strict=True, extra="ignore")

    rms_norm_eps: float = Field(1e-6, gt=0)
    initializer_range: float = 0.02
    attention_dropout: float | None = 0.0
    attention_bias: bool = False
    mlp_bias: bool = False
    use_qk_norm: bool = False
    norm_topk_prob: bool = True
    swiglu_limit: float = Field(7.0, gt=0)
    first_k_dense_replace: int = Field(0, ge=0)
    n_shared_experts: int = Field(1, ge=1)
    routed_scaling_factor: float = Field(1.0, gt=0)
    n_group: int | None = Field(None, ge=1)
    topk_group: int | None = Field(None, ge=1)
    tie_word_embeddings: bool = False
    use_cache: bool = True
    use_sliding_window: bool = False
    sliding_window: int | None = Field(None, ge=1)
    max_window_layers: int = 0
    layer_types: list[str] | None = None
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = None
    pad_token_id: int | None = None
    dtype: Literal["bfloat16", "float16", "float32"] | None = None
    torch_dtype: Literal["bfloat16", "float16", "float32"] | None = None


_ENCODERS = ("ForMaskedLM", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering")
_VISION = ("vision_config", "vision_tower", "audio_config", "text_config", "mm_projector_type")
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_intermediate_size")
_QUANTIZED = ("quantization_config", "compression_config", "quantization")
_UNQUANTIZED = {
    "mxfp4": (
        "as AutoModelForCausalLM.from_pretrained(MODEL, quantization_config=Mxfp4Config(dequantize=True), "
        'dtype="bfloat16").save_pretrained(DIR, save_original_format=False) of transformers writes it'
    )
}
"""How a checkpoint is made that is accepted, where none in full precision was published. In its original format,
transformers 5.19 would save dequantized experts without their names."""
_SIZES = (
    "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "max_position_embeddings",
)  # fmt: skip


def family_of(config: Json) -> Family:
    """
    Return the family of a model.

    Raises:
        ConfigError: It is not in the table; the message describes the model and what is accepted.
    """
    if (method := quantization(config)) is not None:
        way = _UNQUANTIZED.get(method, "such as the one it was made from")
        raise _refused(
            f"it is quantized ({method}); accepted: {ACCEPTED}, {way}. Policies are updated in full precision: on some "
            "GPUs SGLang rewrites quantized weights for its kernels, and later ones could not take their place"
        )
    if (family := listed(config)) is None:
        raise _refused(
            f"it is {_description(config)}; accepted: {ACCEPTED}. engine.allow_unlisted serves others, untested"
        )
    return family


def quantization(config: Json) -> str | None:
    """Return the quantization method of a model, or None."""
    for key in _QUANTIZED:
        if block := config.get(key):
            known = block if isinstance(block, dict) else {}
            return str(known.get("quant_method") or known.get("quant_algo") or key)
    return None


def require_runnable(config: Json, engine: EngineConfig) -> Family | None:
    """
    Check that an engine can run a model with this config.json. Return its family, or None for a model without one,
    which `engine.allow_unlisted` accepts.

    Raises:
        ConfigError: It cannot run it, or would compute something other than transformers; the message says why and what
            is accepted.
    """
    if engine.allow_unlisted and listed(config) is None and quantization(config) is None:
        for reason in _sizes(config, ()):
            raise _refused(reason)
        _require_routing(config, engine)
        return None
    family = family_of(config)
    context = engine.context_length
    for reason in chain(_types(config), _sizes(config, family.states), *_rest(config, family, context)):
        raise _refused(reason)
    _require_ranks(config, family, engine.tensor_parallel)
    _require_context(config, context)
    _require_routing(config, engine)
    return family


def max_context(config: Json) -> int:
    """Return the maximum context length of a model, in tokens."""
    rope, positions = rope_parameters(config), int(config["max_position_embeddings"])
    original = rope.get("original_max_position_embeddings", positions)
    return max(positions, int(original * rope["factor"])) if rope["rope_type"] in {"yarn", "linear"} else positions


def _description(config: Json) -> str:
    names, kind = config.get("architectures"), config.get("model_type")
    name = names[0] if isinstance(names, list) and names and isinstance(names[0], str) else ""
    shown = f"a {name} of model_type {kind!r}" if name else f"a model of model_type {kind!r} that names no architecture"
    for is_one, what in (
        ("Eagle" in name or "speculators_model_type" in config or "eagle_config" in config, "a drafter, for --drafter"),
        (any(key in config for key in _EXPERTS) or "Moe" in name, "a mixture of experts"),
        (any(key in config for key in _VISION) or "ConditionalGeneration" in name, "a multimodal model"),
        (bool(config.get("is_encoder_decoder")), "an encoder-decoder"),
        (name.endswith(_ENCODERS), "a model without a language head"),
        (name.endswith("Model"), "a model without a language head"),
        ("auto_map" in config, "a model with code of its own"),
    ):
        if is_one:
            return f"{shown}, {what}"
    return shown


def _types(config: Json) -> Iterator[str]:
    try:
        _Stated.model_validate(config)
    except ValidationError as error:
        first = error.errors()[0]
        name = first["loc"][0]
        accepted = first["msg"].removeprefix("Input should be ")
        yield f"{name} in its config.json is {config[str(name)]!r}; accepted: {accepted}"


def _sizes(config: Json, states: tuple[str, ...]) -> Iterator[str]:
    optional = (name for name in ("num_key_value_heads", "head_dim") if config.get(name) is not None)
    for name in (*_SIZES, *states, *optional):
        if type(value := config.get(name)) is not int or value < 1:
            yield f"{name} in its config.json is {value!r}; accepted: a positive integer"
            return
    heads, groups = config["num_attention_heads"], kv_heads(config)
    if heads % groups:
        yield f"its {heads} attention heads are not a multiple of its {groups} key-value heads"
    if config.get("head_dim") is None and config["hidden_size"] % heads:
        yield f"its hidden_size {config['hidden_size']} is not a multiple of its {heads} attention heads"
    elif head_size(config) % 2:
        yield f"its head_dim is {head_size(config)}; accepted: an even number"


def _rest(config: Json, family: Family, context: int | None) -> Iterator[Iterator[str]]:
    """Yield the remaining violations, once types and sizes are valid."""
    if family.experts is not None:
        yield _experts(config, family.experts)
    yield _heads(config, family)
    yield _activation(config)
    yield _positions(config, family, context)
    yield unknown_keys(config, family)


def _experts(config: Json, experts: Experts) -> Iterator[str]:
    count, chosen = expert_count(config, experts), config.get("num_experts_per_tok")
    for name, value in ((" or ".join(experts.count), count), (experts.inner, config.get(experts.inner))):
        if type(value) is not int or value < 1:
            yield f"{name} in its config.json is {value!r}; accepted: a positive integer"
            return
    if type(chosen) is not int or not 1 <= chosen <= count:
        yield f"num_experts_per_tok in its config.json is {chosen!r}; accepted: 1 to {count}, the experts of a layer"
    if config.get("experts_per_token") not in {None, chosen}:
        named = config["experts_per_token"]
        yield f"experts_per_token in its config.json is {named!r}; accepted: {chosen}, to match its other key"
    groups, used = config.get("n_group") or 1, config.get("topk_group") or 1
    if count % groups or used > groups or chosen > used * (count // groups):
        yield (
            f"n_group in its config.json is {groups} and topk_group {used}; accepted: groups of equal size, with "
            f"{chosen} of the {count} experts in those that are used"
        )
    for name in experts.count:
        if config.get(name) not in {None, count}:
            yield f"{name} in its config.json is {config[name]!r}; accepted: {count}, to match its other key"
    if not sparse_layers(config, experts):
        yield "none of its layers has experts; accepted: at least one"


def _heads(config: Json, family: Family) -> Iterator[str]:
    share = config["hidden_size"] // config["num_attention_heads"]
    if not family.sizes_heads and config.get("head_dim") not in {None, share}:
        yield f"its head_dim is {config['head_dim']}, which SGLang ignores; accepted for {family.title}: {share}"


def _activation(config: Json) -> Iterator[str]:
    activation = config.get("hidden_act", "silu")
    if activation != "silu":
        yield f"its hidden_act is {activation!r}; accepted: 'silu'"


def _positions(config: Json, family: Family, context: int | None) -> Iterator[str]:
    if not family.turns_part and (share := config.get("partial_rotary_factor", 1.0)) != 1.0:
        yield f"its partial_rotary_factor is {share!r}; accepted: 1"
    if family.slides and type(window := config.get("sliding_window")) is not int:
        yield f"its sliding_window is {window!r}; accepted: a positive integer"
    if not family.slides and _slides(config, context or int(config["max_position_embeddings"])):
        yield (
            f"it attends to a sliding window of {config.get('sliding_window')} tokens, which SGLang ignores; accepted: "
            "full attention, or an engine.context_length of at most the window"
        )
    try:
        rope = rope_parameters(config)
    except (AttributeError, TypeError, ValueError) as error:
        yield f"the rope in its config.json cannot be read: {error}"
        return
    if family.turns_part:
        rope.pop("partial_rotary_factor", None)
    if reason := rope_refusal(rope):
        yield reason


def _slides(config: Json, context: int) -> bool:
    """Return whether any layer has a window smaller than the context."""
    types = config.get("layer_types")
    if isinstance(types, list) and types:
        slides = any(kind != "full_attention" for kind in types)
    else:
        first = config.get("max_window_layers")
        slides = bool(config.get("use_sliding_window")) and not (
            isinstance(first, int) and first >= config["num_hidden_layers"]
        )
    window = config.get("sliding_window")
    return slides and (not isinstance(window, int) or window < context)


def _require_ranks(config: Json, family: Family, ranks: int) -> None:
    heads, groups, inner = config["num_attention_heads"], kv_heads(config), config["intermediate_size"]
    inners = {inner} if family.experts is None else {inner, config[family.experts.inner]}

    def divides(count: int) -> bool:
        whole = heads % count == 0 and all(size % count == 0 for size in inners)
        return whole and (groups % count == 0 or count % groups == 0)

    if not divides(ranks):
        good = ", ".join(str(count) for count in range(1, heads + 1) if divides(count))
        raise ConfigError(
            f"engine.tensor_parallel is {ranks}; accepted for a model with {heads} attention heads, {groups} key-value "
            f"heads and MLPs of {', '.join(map(str, sorted(inners)))}: {good}",
            field="engine.tensor_parallel",
        )


def _require_context(config: Json, wanted: int | None) -> None:
    if wanted is not None and wanted > (most := max_context(config)):
        raise ConfigError(
            f"engine.context_length is {wanted}; accepted: 2 to {most}, the positions the model has. A rope of type "
            "'yarn' in config.json extends them",
            field="engine.context_length",
        )


def _require_routing(config: Json, engine: EngineConfig) -> None:
    if not engine.return_routed_experts:
        return
    routing = Routing.of(config)
    if routing is None:
        accepted = ", ".join(row.title for row in FAMILIES.values() if row.experts is not None)
        raise ConfigError(
            "engine.return_routed_experts is true, but the worker knows no such mixture of experts; accepted: "
            f"{accepted}",
            field="engine.return_routed_experts",
        )
    if routing.row_bytes * (context := engine.context_for(config)) > MAX_ROUTED_BYTES:
        raise ConfigError(
            f"engine.return_routed_experts is true, and the experts of a context of {context} tokens take "
            f"{routing.row_bytes * context} bytes; the maximum is {MAX_ROUTED_BYTES}. Accepted: an "
            f"engine.context_length of at most {MAX_ROUTED_BYTES // routing.row_bytes}",
            field="engine.return_routed_experts",
        )


def _refused(reason: str) -> ConfigError:
    return ConfigError(f"model: {reason}", field="model")
