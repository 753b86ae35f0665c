"""The sizes of a model that determine its memory, read from a Hugging Face `config.json`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tlt_common.drafter.format import DrafterFormat
from tlt_common.errors import ConfigError
from tlt_common.weights.tied_head import is_tied

_WIDE = {"Qwen2ForCausalLM", "Qwen3ForCausalLM"}
ELEMENT_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """A dense decoder as SGLang loads it, and the drafter's layer, which has the same sizes."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    element_bytes: int = 2
    """Bytes per element of weights and activations. Logits and probabilities are always float32."""
    states: int = 1
    """Hidden states of the target that the drafter reads per token: 1 for EAGLE, 3 for EAGLE-3."""
    draft_vocab: int = 0
    """Tokens in the head of an EAGLE-3 drafter; 0 for EAGLE, which uses the target's."""
    is_qwen: bool = False
    """Whether SGLang gives its attention the larger workspace of Qwen models."""
    is_tied: bool = False
    """Whether embedding and head are one tensor."""

    @property
    def layer_parameters(self) -> int:
        """Parameters of one decoder layer."""
        attention = self.hidden * self.head_dim * (2 * self.heads + 2 * self.kv_heads)
        return attention + 3 * self.hidden * self.intermediate

    @property
    def vocabulary_parameters(self) -> int:
        """Parameters of embedding and head."""
        return self.vocab * self.hidden * (1 if self.is_tied else 2)

    def weight_bytes(self, tensor_parallel: int) -> int:
        """Return the bytes of the model's weights per rank."""
        whole = self.layers * self.layer_parameters + self.vocabulary_parameters
        return whole * self.element_bytes // tensor_parallel

    @property
    def drafter_parameters(self) -> int:
        """
        Parameters of a drafter: one layer, and the projection of what it reads; the embedding is shared.

        An EAGLE-3 drafter's attention reads two states, and it has a head of its own.
        """
        if self.states == 1:
            return self.layer_parameters + 2 * self.hidden * self.hidden
        second = self.hidden * self.head_dim * (self.heads + 2 * self.kv_heads)
        return self.layer_parameters + second + self.states * self.hidden * self.hidden + self.draft_head_parameters

    @property
    def draft_head_parameters(self) -> int:
        """Parameters of a drafter's own head."""
        return self.draft_vocab * self.hidden

    def kv_bytes(self, tensor_parallel: int) -> int:
        """Return the bytes of one token in the KV caches of target and drafter, per rank."""
        heads = max(1, self.kv_heads // tensor_parallel)
        return 2 * heads * self.head_dim * self.element_bytes * (self.layers + 1)

    @property
    def state_bytes(self) -> int:
        """Bytes the drafter reads per token."""
        return self.hidden * self.states * self.element_bytes

    @property
    def captured_bytes(self) -> int:
        """Bytes captured per token: what the drafter reads, and for EAGLE-3 the last state."""
        return self.state_bytes + (self.hidden * self.element_bytes if self.states > 1 else 0)

    @classmethod
    def from_config(
        cls, config: Mapping[str, Any], *, dtype: str, drafter: DrafterFormat | None = None
    ) -> "ModelShape":
        """
        Read a `config.json`.

        Args:
            config: The target's.
            dtype: Type of weights and activations.
            drafter: Format of EAGLE-3 drafters; None: EAGLE.

        Raises:
            ConfigError: A size is missing or not a positive integer; the message names it.
        """
        heads, hidden = _size(config, "num_attention_heads"), _size(config, "hidden_size")
        return cls(
            layers=_size(config, "num_hidden_layers"),
            hidden=hidden,
            heads=heads,
            kv_heads=_size(config, "num_key_value_heads", default=heads),
            head_dim=_size(config, "head_dim", default=hidden // heads),
            intermediate=_size(config, "intermediate_size"),
            vocab=_size(config, "vocab_size"),
            element_bytes=ELEMENT_BYTES[dtype],
            is_qwen=bool(_WIDE & set(config.get("architectures") or ())),
            is_tied=is_tied(config),
            states=1 if drafter is None else len(drafter.layers),
            draft_vocab=0 if drafter is None else drafter.draft_vocab_size,
        )

    def layer_elements(self, tensor_parallel: int) -> float:
        """Return the activation elements that one token needs at once inside a layer, per rank."""
        split = (self.heads + 2 * self.kv_heads) * self.head_dim + 3 * self.intermediate
        return split / tensor_parallel + 3 * self.hidden


def _size(config: Mapping[str, Any], name: str, *, default: int | None = None) -> int:
    value = config.get(name)
    if value is None and default is not None:
        return default
    if not isinstance(value, int) or value < 1:
        raise ConfigError(
            f"model: {name} in config.json is {value!r}; accepted: a positive integer, as in Llama, Qwen2 and Qwen3",
            field="model",
        )
    return value
