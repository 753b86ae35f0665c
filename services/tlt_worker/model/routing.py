"""Routed experts of tokens as SGLang returns them, validated and packed. Pure."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tlt_common.domain.response import RoutedExperts
from tlt_common.errors import RequestFailedError
from tlt_worker.model.families import expert_count, listed, sparse_layers

_BYTE = 256
"""Experts that one byte can number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """Format of a token's routed experts in a model."""

    layers: int
    """Number of layers in SGLang's rows, including dense ones."""
    top_k: int
    experts: int
    sparse: tuple[int, ...]
    """Layers with experts."""

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "Routing | None":
        """Return the routing of a model with this config.json, or None if the table has no such mixture of experts."""
        family = listed(config)
        if family is None or family.experts is None:
            return None
        return cls(
            layers=int(config["num_hidden_layers"]),
            top_k=int(config["num_experts_per_tok"]),
            experts=int(expert_count(config, family.experts)),
            sparse=sparse_layers(config, family.experts),
        )

    @property
    def dtype(self) -> str:
        """Element type, as `RoutedExperts` names it."""
        return "U8" if self.experts <= _BYTE else "I32"

    @property
    def row_bytes(self) -> int:
        """Bytes of one token's row."""
        return self.layers * self.top_k * (1 if self.dtype == "U8" else 4)

    def packed(self, encoded: str | None, *, first: int, tokens: int) -> RoutedExperts:
        """
        Validate and pack SGLang's rows, which are base64-encoded int32.

        An expert occurs once per row. SGLang's buffers start as zeros, and kernels that choose experts themselves do
        not write to them, so a repeated expert means that the rows were not recorded.

        Args:
            encoded: SGLang's `meta_info.routed_experts`.
            first: Position of the first row's token.
            tokens: Number of rows there must be.

        Raises:
            RequestFailedError: The rows do not belong to this many tokens of this model.
        """
        import numpy as np  # which a simulation does not need

        rows = np.frombuffer(base64.b64decode(encoded or ""), "<i4")
        if encoded is None or rows.size != tokens * self.layers * self.top_k:
            raise RequestFailedError(
                f"the engine returned {rows.size} routed experts for {tokens} tokens of {self.layers} layers with "
                f"{self.top_k} experts each"
            )
        rows_TLK = rows.reshape(tokens, self.layers, self.top_k)
        ordered_TSK = np.sort(rows_TLK[:, list(self.sparse)], axis=-1)
        repeats = bool(np.any(ordered_TSK[..., 1:] == ordered_TSK[..., :-1]))
        if repeats or (rows.size and not 0 <= rows.min() <= rows.max() < self.experts):
            raise RequestFailedError("the engine did not record which experts the tokens were routed to")
        data = rows.astype(np.uint8 if self.dtype == "U8" else "<i4").tobytes()
        return RoutedExperts(first=first, layers=self.layers, top_k=self.top_k, dtype=self.dtype, data=data)
