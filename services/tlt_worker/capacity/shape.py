"""The sizes of a model that determine its memory, read from a Hugging Face `config.json`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tlt_common.errors import ConfigError

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

    @property
    def state_bytes(self) -> int:
        """Bytes the drafter reads per token."""
        return self.hidden * self.states * self.element_bytes

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *, dtype: str, states: int = 1) -> "ModelShape":
        """
        Read a `config.json`.

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
            states=states,
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
