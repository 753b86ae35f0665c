"""Model sizes that determine memory, read from a Hugging Face `config.json`. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_common.drafter.format import DrafterFormat
from tlt_common.drafter.tensors import HEAD
from tlt_common.errors import ConfigError
from tlt_common.weights.tied_head import is_tied
from tlt_worker.model.families import Experts, Family, Spelling, expert_count, listed, sparse_layers
from tlt_worker.model.tensors import expected_tensors

ELEMENT_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}
VOCABULARY_PAD = 64
"""SGLang pads embedding and head to a multiple of so many tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertShape:
    """The mixture of experts in some of a model's layers."""

    layers: int
    """Number of layers with experts instead of an MLP."""
    count: int
    chosen: int
    """Number of experts per token."""
    inner: int
    """Intermediate size of each expert."""
    shared_inner: int = 0
    """Intermediate size of the shared MLP, which computes every token."""
    is_stacked: bool = False
    """Whether a checkpoint has one tensor for all experts of a layer."""

    @property
    def inners(self) -> int:
        """Intermediate elements of all experts of a layer."""
        return self.count * self.inner + self.shared_inner


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftShape:
    """Sizes of a drafter."""

    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    parameters: int
    """Trained parameters, without those it shares with its target."""
    frozen: int = 0
    """Parameters that are not trained: the routed experts of a checkpoint's own head."""
    chosen: int = 0
    """Frozen parameters that one token reads."""
    head_parameters: int = 0
    """Parameters of a trained head."""
    table: int = 0
    """Parameters of lookup tables, of which a draft reads one row."""
    per_draft: int = 0
    """Parameters that each draft of a block reads: the Markov head's."""
    layers: int = 1
    queries: int = 0
    """Tokens per request in one pass of a block drafter; 0 for autoregressive drafters."""
    states: int = 1
    """Number of the target's hidden states that it reads per token."""
    captured: int = 1
    """
    Number of hidden states captured per token: those it reads, and the last one for the training targets.
    """
    head_rows: int = 0
    """Rows of the target's head that engines copy for drafting; 0 uses the whole head."""
    tokens: int | None = None
    """Number of tokens that it can draft; None for the target's whole vocabulary."""
    architecture: DrafterArchitecture = DrafterArchitecture.EAGLE

    @classmethod
    def of(cls, form: DrafterFormat) -> "DraftShape":
        """Return the shape of drafters of a format."""
        matrices = {name: prod(shape) for name, shape in form.tensor_shapes().items() if len(shape) > 1}
        return cls(
            heads=form.heads,
            kv_heads=form.kv_heads,
            head_dim=form.head_dim,
            intermediate=form.inner_size,
            parameters=sum(matrices.values()),
            frozen=sum(map(prod, form.frozen_shapes().values())),
            chosen=form.chosen_parameters,
            head_parameters=matrices.get(HEAD, 0),
            table=form.table_parameters,
            per_draft=form.draft_parameters,
            layers=form.layer_count,
            queries=form.block_queries,
            states=form.read_states,
            captured=form.captured_size // form.hidden_size,
            head_rows=form.head_rows,
            tokens=form.draft_vocab_size if form.has_map else None,
            architecture=form.architecture,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """A decoder as SGLang loads it, and its drafter."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    """Intermediate size of the MLP in layers without experts."""
    vocab: int
    element_bytes: int = 2
    """Bytes per element of weights and activations. Logits and probabilities are always float32."""
    experts: ExpertShape | None = None
    vectors: int = 0
    """Parameters of norms and biases, which are replicated on every rank."""
    draft: DraftShape | None = None
    """Sizes of its drafters; None for EAGLE drafters with the sizes of the target's layers."""
    is_qwen: bool = False
    """Whether SGLang gives its attention the larger workspace of Qwen models."""
    is_tied: bool = False
    """Whether embedding and head are one tensor."""

    @property
    def vocabulary_parameters(self) -> int:
        """Parameters of embedding and head."""
        return self.vocab * self.hidden * (1 if self.is_tied else 2)

    @property
    def parameters(self) -> int:
        """Parameters of the policy."""
        attention = self.layers * self.hidden * self.head_dim * 2 * (self.heads + self.kv_heads)
        return attention + self._mlp_parameters + self._routers + self.vectors + self.vocabulary_parameters

    def weight_bytes(self, tensor_parallel: int) -> int:
        """Return the bytes of the model's weights per rank."""
        kv = (
            self.hidden * self.head_dim * 2 * max(1, self.kv_heads // tensor_parallel)
        )  # copied where there are too few
        queries = self.hidden * self.head_dim * 2 * self.heads // tensor_parallel
        split = self._mlp_parameters + _padded(self.vocab) * self.hidden * (1 if self.is_tied else 2)
        whole = self.layers * (kv + queries) + self._routers + self.vectors
        return (whole + split // tensor_parallel) * self.element_bytes

    def packed_bytes(self, tensor_parallel: int) -> int:
        """Return the bytes per rank of the weights that CPUs pack: all but norms, biases, experts and one embedding."""
        rows = 0 if self.is_tied else _padded(self.vocab)
        experts = 0 if self.experts is None else self.experts.layers * 3 * self.experts.count * self.experts.inner
        apart = (rows + experts) * self.hidden // tensor_parallel + self.vectors
        return self.weight_bytes(tensor_parallel) - apart * self.element_bytes

    @property
    def largest_tensor(self) -> int:
        """Elements of the largest tensor in a checkpoint."""
        stacked = 0
        if self.experts is not None and self.experts.is_stacked:
            stacked = 2 * self.experts.count * self.experts.inner * self.hidden
        return max(self.vocab * self.hidden, stacked)

    @property
    def drafter(self) -> DraftShape:
        """Drafters of this target."""
        attention = self.hidden * self.head_dim * 2 * (self.heads + self.kv_heads)
        return self.draft or DraftShape(
            heads=self.heads,
            kv_heads=self.kv_heads,
            head_dim=self.head_dim,
            intermediate=self.intermediate,
            parameters=attention + 3 * self.hidden * self.intermediate + 2 * self.hidden**2,
        )

    @property
    def active_parameters(self) -> int:
        """Parameters of the layers that process a token."""
        experts = self.experts
        if experts is None:
            return self.parameters - self.vocabulary_parameters
        idle = experts.layers * 3 * self.hidden * (experts.count - experts.chosen) * experts.inner
        return self.parameters - self.vocabulary_parameters - idle

    def read_parameters(self, rows: int) -> float:
        """Return the parameters of the layers read in a pass over this many tokens, with uniformly chosen experts."""
        experts = self.experts
        if experts is None:
            return self.active_parameters
        unread = (1 - experts.chosen / experts.count) ** rows
        idle = experts.layers * 3 * self.hidden * experts.count * experts.inner * unread
        return self.parameters - self.vocabulary_parameters - idle

    def drafter_bytes(self, tensor_parallel: int) -> int:
        """Return the bytes of a drafter in an engine per rank, including the head rows that it copies."""
        own = self.drafter.parameters + self.drafter.frozen + _padded(self.drafter.head_rows) * self.hidden
        return own * self.element_bytes // tensor_parallel

    def kv_bytes(self, tensor_parallel: int) -> int:
        """
        Return the bytes of one token in the KV caches of target and drafter, per rank.

        Sliding-window layers keep all tokens, too, since one pool serves all layers.
        """
        target = self.layers * max(1, self.kv_heads // tensor_parallel) * self.head_dim
        drafter = self.drafter.layers * max(1, self.drafter.kv_heads // tensor_parallel) * self.drafter.head_dim
        return 2 * (target + drafter) * self.element_bytes

    @property
    def state_bytes(self) -> int:
        """Bytes the drafter reads per token."""
        return self.hidden * self.drafter.states * self.element_bytes

    @property
    def captured_bytes(self) -> int:
        """Bytes captured per token."""
        return self.hidden * self.drafter.captured * self.element_bytes

    @classmethod
    def from_config(
        cls, config: Mapping[str, Any], *, dtype: str, drafter: DrafterFormat | None = None
    ) -> "ModelShape":
        """
        Read a `config.json`.

        Args:
            config: The target's `config.json`.
            dtype: Type of weights and activations.
            drafter: Format of drafters. None stands for EAGLE drafters with the sizes of the target's layers.

        Raises:
            ConfigError: A size is missing or not a positive integer; the message names it.
        """
        heads, hidden, family = _size(config, "num_attention_heads"), _size(config, "hidden_size"), listed(config)
        shape = cls(
            layers=_size(config, "num_hidden_layers"),
            hidden=hidden,
            heads=heads,
            kv_heads=_size(config, "num_key_value_heads", default=heads),
            head_dim=_size(config, "head_dim", default=hidden // heads),
            intermediate=_size(config, "intermediate_size"),
            vocab=_size(config, "vocab_size"),
            element_bytes=ELEMENT_BYTES[dtype],
            experts=_experts(config, family.experts) if family is not None and family.experts is not None else None,
            is_qwen=family is not None and family.wide_workspace,
            is_tied=is_tied(config),
        )
        if family is not None:
            shape = replace(shape, vectors=_vectors(config, family, shape))
        return shape if drafter is None else shape.drafting(drafter)

    def drafting(self, form: DrafterFormat) -> "ModelShape":
        """Return the shape with drafters of a format."""
        return replace(self, draft=DraftShape.of(form))

    def layer_elements(self, tensor_parallel: int) -> float:
        """Return the activation elements that one token needs inside a layer, per rank."""
        inner, gathered = self.intermediate, 0
        if self.experts is not None:
            # SGLang's fused kernel keeps the chosen experts' outputs apart until it adds them up.
            routed = self.experts.chosen * self.experts.inner + self.experts.shared_inner
            inner, gathered = max(inner, routed), self.experts.chosen * self.hidden
        split = (self.heads + 2 * self.kv_heads) * self.head_dim + 3 * inner
        return split / tensor_parallel + 3 * self.hidden + gathered

    @property
    def _mlp_parameters(self) -> int:
        experts = self.experts
        if experts is None:
            return self.layers * 3 * self.hidden * self.intermediate
        dense = (self.layers - experts.layers) * self.intermediate
        return 3 * self.hidden * (dense + experts.layers * experts.inners)

    @property
    def _routers(self) -> int:
        return 0 if self.experts is None else self.experts.layers * self.experts.count * self.hidden


def _experts(config: Mapping[str, Any], experts: Experts) -> ExpertShape:
    count, inner = expert_count(config, experts), _size(config, experts.inner)
    if not isinstance(count, int) or count < 1:
        raise _not_positive(experts.count[0], count)
    return ExpertShape(
        layers=len(sparse_layers(config, experts)),
        count=count,
        chosen=_size(config, "num_experts_per_tok"),
        inner=inner,
        shared_inner=inner * int(config.get(experts.shared) or 0) if experts.shared else 0,
        is_stacked=experts.spelling is Spelling.STACKED,
    )


def _vectors(config: Mapping[str, Any], family: Family, shape: ModelShape) -> int:
    """Return the number of parameters outside matrices: all tensors' less the matrices'."""
    return sum(map(prod, expected_tensors(config, family).values())) - shape.parameters


def _padded(tokens: int) -> int:
    return -(-tokens // VOCABULARY_PAD) * VOCABULARY_PAD


def _size(config: Mapping[str, Any], name: str, *, default: int | None = None) -> int:
    value = config.get(name)
    if value is None and default is not None:
        return default
    if not isinstance(value, int) or value < 1:
        raise _not_positive(name, value)
    return value


def _not_positive(name: str, value: object) -> ConfigError:
    return ConfigError(f"model: {name} in config.json is {value!r}; accepted: a positive integer", field="model")
