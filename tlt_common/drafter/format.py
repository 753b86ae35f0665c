"""
The interface of all drafter formats: architecture and sizes, which determine tensors and config.json.

Each format is a module with a class that implements this interface; `reading.FORMATS` lists them. Code outside this
package uses the interface and never checks the architecture. An engine's memory and CUDA graphs are made for one format
at launch: the first drafter may have any format its target allows, and later ones must be compatible (`require_fit`).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any, ClassVar, Self

from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_common.drafter.rope import rope_fields
from tlt_common.drafter.tensors import EMBEDDING, HEAD, canonical_name, is_derived
from tlt_common.errors import WeightsError

_INHERITED = ("max_position_embeddings", "bos_token_id", "eos_token_id", "pad_token_id", "torch_dtype", "dtype")

Json = Mapping[str, Any]
Shapes = dict[str, tuple[int, ...]]
"""Shapes of tensors, by SGLang's names."""
NOTHING: Json = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class DrafterFormat(ABC):
    """Format of a drafter with dense decoder layers, for any family of targets."""

    architecture: ClassVar[DrafterArchitecture]
    model_classes: ClassVar[tuple[str, ...]]
    """`architectures` in the config.json of such drafters, as we write them."""
    refused_files: ClassVar[tuple[str, ...]] = ()
    """Files next to the weights that change what a drafter computes."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    heads: int
    kv_heads: int
    head_dim: int
    norm_eps: float
    rope: Json
    """`rope_parameters` as written by transformers 5."""
    draft_vocab_size: int
    """Number of tokens that it can draft. Below `vocab_size` only with a map, or after an engine has reduced it."""
    layers: tuple[int, ...] = ()
    """Target layers whose outputs it reads, ascending. Empty: it reads the target's last state."""
    is_target_tied: bool = False
    """Whether the target's head is its embedding."""
    max_positions: int = 8192
    """Maximum context in tokens, as stated in config.json. No tensor depends on it."""

    @classmethod
    @abstractmethod
    def standard(
        cls, target: Json, *, draft_vocabulary: int | None = None, layers: Sequence[int] | None = None
    ) -> Self:
        """Return the default format for a target. See `reading.standard_format`, which also converts errors."""

    @classmethod
    @abstractmethod
    def read(cls, drafter: Json, target: Json) -> Self:
        """Return the format that a config.json describes, with keys as in `config`. See `reading.format_of`."""

    @abstractmethod
    def tensor_shapes(self) -> Shapes:
        """Return the shape of each trained and required tensor."""

    def bias_shapes(self) -> Shapes:
        """Return the shape of each bias that SGLang's layer has. A file may have any of them; they are not trained."""
        return {}

    @property
    def written_biases(self) -> tuple[str, ...]:
        """Biases that published files must contain, as zeros: SGLang would leave them uninitialized."""
        return ()

    def frozen_shapes(self) -> Shapes:
        """Return the shapes of tensors taken from the target's checkpoint, and neither trained nor published."""
        return {}

    @property
    def chosen_parameters(self) -> int:
        """Parameters among the frozen ones that one token reads."""
        return 0

    @property
    def table_parameters(self) -> int:
        """Trained parameters in lookup tables, of which a draft reads one row."""
        return 0

    @property
    def draft_parameters(self) -> int:
        """Trained parameters that each draft of a block reads after the pass."""
        return 0

    def shared_shapes(self) -> Shapes:
        """
        Return the shape of each tensor that a file may contain but that is not read: shared with the target, or
        derived.
        """
        whole = (self.vocab_size, self.hidden_size)
        return {EMBEDDING: whole, **({} if self.trains_head else {HEAD: whole})}

    def canonical_name(self, name: str) -> str:
        """Return SGLang's name of a published tensor."""
        return canonical_name(name)

    def ignores(self, name: str) -> bool:
        """Return whether a tensor with this canonical name is ignored, whatever its shape: derived or unused."""
        return is_derived(name)

    def published_name(self, name: str) -> str:
        """Return the name of a tensor in published files and in the engine, given our name."""
        return name

    @property
    def inner_size(self) -> int:
        """Inner elements of its MLP per token."""
        return self.intermediate_size

    @property
    def turned_size(self) -> int:
        """Rotated elements of an attention head."""
        return self.head_dim

    @property
    def model_class(self) -> str:
        """The applicable class of `model_classes`."""
        return self.model_classes[0]

    @property
    def served_as(self) -> str:
        """Model class that runs it in our engine: SGLang's, or one of `tlt_worker.scheduler.models`."""
        return self.model_class

    def require_files(self, names: Iterable[str]) -> None:
        """
        Raises:
            WeightsError: One of `refused_files` is next to the weights.
        """
        if found := sorted(set(self.refused_files) & set(names)):
            raise WeightsError(f"the drafter has a file {found[0]}, which is not supported; accepted: one without it")

    @property
    def has_map(self) -> bool:
        """Whether it has a map, tensor `MAP`, of the target's tokens that it can draft."""
        return False

    @property
    def trains_head(self) -> bool:
        """Whether it trains its own head, tensor `HEAD`; otherwise it uses the target's."""
        return False

    def reduced(self, tokens: int, *, ranks: int) -> Self:
        """
        Return the format with which engines draft from at most this many tokens, rounded up to equal shares per rank.

        Only the target's head is reduced; a trained head stays unchanged.
        """
        if self.trains_head:
            return self
        return replace(self, draft_vocab_size=min(self.vocab_size, tokens + -tokens % ranks))

    @property
    def head_rows(self) -> int:
        """Rows of the target's head that an engine copies for drafting; 0 if it drafts from a whole head."""
        return self.draft_vocab_size if not self.trains_head and self.draft_vocab_size < self.vocab_size else 0

    @property
    def is_targets_own(self) -> bool:
        """Whether it comes with the target's checkpoint, so that engines can draft before any is published."""
        return False

    @property
    def layer_count(self) -> int:
        """Number of its own decoder layers."""
        return 1

    @property
    def block_drafts(self) -> int:
        """Number of drafts per pass of a block drafter; 0 for autoregressive drafters."""
        return 0

    @property
    def block_queries(self) -> int:
        """Tokens per request in such a pass; 0 for autoregressive drafters."""
        return 0

    @property
    def read_states(self) -> int:
        """Number of the target's states that it reads per token."""
        return max(1, len(self.layers))

    @property
    def captured_size(self) -> int:
        """Elements of a captured state: the outputs of `layers`, then the last state."""
        return (len(self.layers) + 1) * self.hidden_size

    @abstractmethod
    def own_config(self) -> dict[str, Any]:
        """Return the fields of config.json that this architecture adds or names differently."""

    def config(self, inherited: Json = NOTHING) -> dict[str, Any]:
        """
        Return the config.json.

        `inherited` adds fields that the format does not define: token ids, dtype, positions.
        """
        return {
            "max_position_embeddings": self.max_positions,
            **{key: inherited[key] for key in _INHERITED if key in inherited},
            "architectures": [self.model_class],
            "model_type": "llama",
            "num_hidden_layers": self.layer_count,
            "vocab_size": self.vocab_size,
            "hidden_size": self.hidden_size,
            "intermediate_size": self.intermediate_size,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "rms_norm_eps": self.norm_eps,
            **rope_fields(self.rope),
            "hidden_act": "silu",
            # Also for a tied target: SGLang replaces embedding and head one after the other, which fails if they are
            # the same module.
            "tie_word_embeddings": False,
            "attention_bias": False,
            "mlp_bias": False,
            **self.own_config(),
        }


def require_fit(running: DrafterFormat, offered: DrafterFormat) -> None:
    """
    Check that a drafter can replace the running one.

    Raises:
        WeightsError: The formats are incompatible; the message names the first difference.
    """
    if running.architecture is not offered.architecture:
        raise _misfit("architecture", str(offered.architecture), str(running.architecture))
    for name in (field.name for field in fields(running) if field.name != "max_positions"):
        ours, theirs = getattr(running, name), getattr(offered, name)
        fits = ours == theirs
        if name == "draft_vocab_size":
            fits = theirs <= ours or running.head_rows > 0
        elif name == "rope":
            fits = all(ours[key] == theirs[key] for key in ours.keys() & theirs.keys())
        if not fits:
            raise _misfit(name, theirs, ours)


def _misfit(name: str, theirs: object, ours: object) -> WeightsError:
    return WeightsError(f"the drafter's {name} is {theirs!r}; the engine was launched for {ours!r}")
