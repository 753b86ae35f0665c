"""
Multiplies with a CPU's weights in oneDNN's packed layout. Imported inside SGLang's processes only.

torch's own products of a few rows take much longer than those of one row: in float32, 4 and 8 rows take 1.8 and 2.4
times as long on a Xeon with AMX; packed, 1.1 and 1.3 times. Rounds that verify drafts would therefore cost more on a
CPU than elsewhere. Single rows of float32 are left to torch, which is faster. SGLang's compiled CPU kernels pack
weights as well, in place and only for AMX.

A weight is packed on first use and takes twice its memory from then on. SGLang calls `process_weights_after_loading` of
every layer after each change of weights, which discards the packed copy.

Written against SGLang 0.5.23. Shapes: N rows, I input and O output features.
"""

import platform
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from tlt_common.machine import multiplies_bfloat16

_ROWS = {torch.float32: 4, torch.bfloat16: 1}
"""Rows for which oneDNN chooses the layout, by type. With these, as far as measured, packed products round all rows
alike, however many there are; with other layouts, and in torch's own, verifying differs from decoding by a bit."""
_LEAST_ROWS = {torch.float32: 2, torch.bfloat16: 1}
"""Rows from which packed weights are faster."""
_PACKED = "tlt_packed"
"""Attribute of a weight."""


def forget(original: Callable[..., Any], self: Any, layer: Any) -> None:
    """Wrap SGLang's processing of a layer's new weights: they are packed again on next use."""
    original(self, layer)
    forget_weight(layer.weight)


def forget_weight(weight: Tensor) -> None:
    """Pack this weight again on next use, since its values have changed."""
    if hasattr(weight, _PACKED):
        delattr(weight, _PACKED)


def multiply(original: Callable[..., Any], self: Any, layer: Any, x: Tensor, bias: Tensor | None = None) -> Any:
    """Wrap the product of a linear layer."""
    return product(x, layer.weight, bias) if _packs(x, layer.weight) else original(self, layer, x, bias)


def logits(original: Callable[..., Any], self: Any, hidden: Tensor, head: Any, *args: Any, **kw: Any) -> Any:
    """Wrap the product with an output head."""
    weight = getattr(head, "weight", None)
    if self.use_fp32_lm_head or hasattr(head, "set_lora") or weight is None or not _packs(hidden, weight):
        return original(self, hidden, head, *args, **kw)
    return product(hidden, weight)


def linear(x: Tensor, weight_OI: Tensor, bias_O: Tensor | None = None) -> Tensor:
    """Return the result of `torch.nn.functional.linear`."""
    return product(x, weight_OI, bias_O) if _packs(x, weight_OI) else functional.linear(x, weight_OI, bias_O)


def product(x: Tensor, weight_OI: Tensor, bias_O: Tensor | None = None) -> Tensor:
    """Return x [..., N, I] times the transposed weight, plus the bias."""
    packed = getattr(weight_OI, _PACKED, None)
    if packed is None:
        pack: Any = torch.ops.mkldnn._reorder_linear_weight  # noqa: SLF001 - torch's compiler calls it
        packed = pack(weight_OI.detach(), _ROWS[weight_OI.dtype])
        setattr(weight_OI, _PACKED, packed)
    multiply_packed: Any = torch.ops.mkldnn._linear_pointwise  # noqa: SLF001 - torch's compiler calls it
    out_NO: Tensor = multiply_packed(x.reshape(-1, x.shape[-1]).contiguous(), packed, bias_O, "none", [], "")
    return out_NO.view(*x.shape[:-1], -1)


def _packs(x: Tensor, weight: Tensor) -> bool:
    if x.dtype is not weight.dtype or weight.dtype not in _types() or weight.dim() != 2:
        return False
    return x.shape[:-1].numel() >= _LEAST_ROWS[x.dtype]


@cache
def _types() -> frozenset[torch.dtype]:
    """Return the types that oneDNN can pack on this machine."""
    has_onednn: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    if not has_onednn or platform.machine() not in {"x86_64", "AMD64"}:
        return frozenset()
    return frozenset(_ROWS if multiplies_bfloat16() else {torch.float32})
