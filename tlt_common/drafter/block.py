"""
The block format: decoder layers that draft a block of tokens in one pass, as DFlash and DSpark.

SGLang 0.5.23 reads it in `models/dflash.py`, `models/dspark.py`, `speculative/dflash_utils.py` and
`speculative/dspark_components/dspark_config.py`. Variants with other drafting rules are refused by the name of their
field.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import prod
from typing import Any, ClassVar, Final, Self

from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_common.drafter.block_layers import MASK_FILE, PUBLISHED_NAMES, require_supported, target_layers_of
from tlt_common.drafter.format import DrafterFormat, Json, Shapes
from tlt_common.drafter.published import DFLASH, DSPARK
from tlt_common.drafter.sizes import require_same_target, runnable, sizes_of
from tlt_common.drafter.target_layers import require_layers, standard_layers
from tlt_common.drafter.tensors import MARKOV, canonical_name
from tlt_common.errors import WeightsError

CONFIDENCE: Final = "confidence_head."
"""DSpark's guess of how many drafts will be kept. Not used: cutting a block by it biases responses (its appendix A)."""
DEPTH, DRAFTS, MAX_RANK = 2, 7, 256
"""Of drafters that are trained from nothing: layers, drafts, and the most that the rank of the Markov head can be."""


class MarkovHead(StrEnum):
    """Dependence of a draft on the previous one."""

    NONE = "none"
    """No dependence (DFlash)."""
    VANILLA = "vanilla"
    """A low-rank bias on the logits."""
    GATED = "gated"
    """A low-rank bias gated by the draft's state."""
    RNN = "rnn"
    """A bias computed by a recurrent state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockFormat(DrafterFormat):
    """
    Format of a block drafter.

    A pass computes `block_queries` positions: the last token, whose state the target has not computed, followed by mask
    tokens. Draft k, the token k + 1 after the last one, is read from query k + `first_query`.
    """

    architecture: ClassVar[DrafterArchitecture] = DrafterArchitecture.BLOCK
    model_classes: ClassVar[tuple[str, ...]] = (DFLASH, *DSPARK)
    refused_files: ClassVar[tuple[str, ...]] = (MASK_FILE,)

    depth: int
    """Number of its decoder layers."""
    drafts: int
    """Number of drafted tokens per block."""
    mask_token: int
    """Token of the target whose embedding stands for tokens to draft."""
    markov_head: MarkovHead = MarkovHead.NONE
    markov_rank: int = 0
    samples_anchor: bool = False
    """Whether the query of the last token gives the first draft."""

    @classmethod
    def standard(
        cls,
        target: Json,
        *,
        draft_vocabulary: int | None = None,  # noqa: ARG003 - it drafts all tokens
        layers: Sequence[int] | None = None,
    ) -> Self:
        read = standard_layers(target) if layers is None else tuple(layers)
        require_layers(read, target)
        sizes = sizes_of(target, target)
        form = cls(
            **sizes,
            draft_vocab_size=sizes["vocab_size"],
            layers=read,
            depth=DEPTH,
            drafts=DRAFTS,
            mask_token=sizes["vocab_size"] - 1,  # vocabularies of large models are padded
            markov_head=MarkovHead.RNN,
            markov_rank=max(1, min(MAX_RANK, sizes["hidden_size"] // 4)),
            samples_anchor=True,
        )
        return runnable(form)

    @classmethod
    def read(cls, drafter: Json, target: Json) -> Self:
        require_same_target(drafter, target)
        fields = {**drafter, **(drafter.get("dflash_config") or {}), **(drafter.get("dspark_config") or {})}
        require_supported(fields)
        depth, block = int(drafter["num_hidden_layers"]), int(fields["block_size"])
        head, rank = _markov_head(drafter, fields)
        return cls(
            **sizes_of(drafter, target),
            draft_vocab_size=int(drafter["vocab_size"]),
            layers=target_layers_of(fields, target),
            depth=_positive("num_hidden_layers", depth),
            # The block of DFlash includes the last token.
            drafts=_positive("block_size", block if rank else block - 1),
            mask_token=_mask_token(fields, target),
            markov_head=head,
            markov_rank=rank,
            samples_anchor=bool(rank) and bool(fields.get("sample_from_anchor", True)),
        )

    def tensor_shapes(self) -> Shapes:
        found: Shapes = {
            "fc.weight": (self.hidden_size, len(self.layers) * self.hidden_size),
            "hidden_norm.weight": (self.hidden_size,),
            "norm.weight": (self.hidden_size,),
        }
        for number in range(self.depth):
            found |= self._layer_shapes(f"layers.{number}.")
        return found | self._markov_shapes()

    def canonical_name(self, name: str) -> str:
        return PUBLISHED_NAMES.get(name, canonical_name(name))

    def ignores(self, name: str) -> bool:
        return DrafterFormat.ignores(self, name) or name.startswith(CONFIDENCE)

    @property
    def model_class(self) -> str:
        return DSPARK[0] if self.markov_rank else DFLASH

    @property
    def served_as(self) -> str:
        return "TltDSpark" if self.markov_rank else "TltDFlash"

    @property
    def layer_count(self) -> int:
        return self.depth

    @property
    def block_drafts(self) -> int:
        return self.drafts

    @property
    def block_queries(self) -> int:
        return self.drafts + self.first_query

    @property
    def first_query(self) -> int:
        """Query that gives the first draft."""
        return 0 if self.samples_anchor else 1

    @property
    def table_parameters(self) -> int:
        return self.vocab_size * self.markov_rank

    @property
    def draft_parameters(self) -> int:
        return sum(map(prod, self._markov_shapes().values())) - self.table_parameters

    def own_config(self) -> dict[str, Any]:
        block = {"mask_token_id": self.mask_token, "target_layer_ids": list(self.layers)}
        common = {
            "model_type": "qwen3",
            "layer_types": ["full_attention"] * self.depth,
            "block_size": self.drafts if self.markov_rank else self.drafts + 1,
        }
        if not self.markov_rank:
            return common | {"dflash_config": block}
        return {
            **common,
            **block,
            "markov_rank": self.markov_rank,
            "markov_head_type": str(self.markov_head),
            "sample_from_anchor": self.samples_anchor,
            "enable_confidence_head": False,
        }

    def _layer_shapes(self, of: str) -> Shapes:
        hidden, inner, size = self.hidden_size, self.intermediate_size, self.head_dim
        return {
            f"{of}self_attn.q_proj.weight": (self.heads * size, hidden),
            f"{of}self_attn.k_proj.weight": (self.kv_heads * size, hidden),
            f"{of}self_attn.v_proj.weight": (self.kv_heads * size, hidden),
            f"{of}self_attn.o_proj.weight": (hidden, self.heads * size),
            f"{of}self_attn.q_norm.weight": (size,),
            f"{of}self_attn.k_norm.weight": (size,),
            f"{of}mlp.gate_proj.weight": (inner, hidden),
            f"{of}mlp.up_proj.weight": (inner, hidden),
            f"{of}mlp.down_proj.weight": (hidden, inner),
            f"{of}input_layernorm.weight": (hidden,),
            f"{of}post_attention_layernorm.weight": (hidden,),
        }

    def _markov_shapes(self) -> Shapes:
        rank, read = self.markov_rank, self.hidden_size + self.markov_rank
        if not rank:
            return {}
        rows: Shapes = dict.fromkeys(MARKOV, (self.vocab_size, rank))
        of_head: Mapping[MarkovHead, Shapes] = {
            MarkovHead.GATED: {"markov_head.gate_proj.weight": (rank, read), "markov_head.gate_proj.bias": (rank,)},
            MarkovHead.RNN: {
                "markov_head.joint_proj.weight": (3 * rank, read + rank),
                "markov_head.joint_proj.bias": (3 * rank,),
            },
        }
        return rows | of_head.get(self.markov_head, {})


def _markov_head(drafter: Json, fields: Json) -> tuple[MarkovHead, int]:
    rank, is_dspark = int(fields.get("markov_rank") or 0), drafter["architectures"][0] in DSPARK
    if not is_dspark and rank:
        raise WeightsError(f"the drafter's markov_rank is {rank}; accepted: 0 for {DFLASH}, else one of {DSPARK[0]}")
    if not is_dspark:
        return MarkovHead.NONE, 0
    kind = str(fields.get("markov_head_type", "")).lower()
    if kind not in (accepted := [str(head) for head in MarkovHead if head is not MarkovHead.NONE]):
        raise WeightsError(f"the drafter's markov_head_type is {kind!r}; accepted: {', '.join(accepted)}")
    return MarkovHead(kind), _positive("markov_rank", rank)


def _mask_token(fields: Json, target: Json) -> int:
    token, size = fields.get("mask_token_id"), int(target["vocab_size"])
    if isinstance(token, bool) or not isinstance(token, int) or not 0 <= token < size:
        raise WeightsError(
            f"the drafter's mask_token_id is {token!r}; accepted: a token of its target, 0 to {size - 1}"
        )
    return token


def _positive(name: str, value: int) -> int:
    if value < 1:
        raise WeightsError(f"the drafter's {name} leaves nothing to draft with; accepted: a larger number")
    return value
