"""
Merges adapters into base weights while an engine loads them.

A merged matrix is computed when it is copied to its parameter, and only the part that this rank keeps: SGLang's loaders
narrow what they load. The sum is made in float32, from the base's values each time, and rounded once.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from tlt_common.errors import WeightsError
from tlt_common.weights.adapter import Adapter, Change, Factors
from tlt_common.weights.safetensors_file import Piece

BLOCK_ELEMENTS = 2**17
"""Elements merged at a time on a CPU: what is computed stays in a core's cache, and takes a fifth of the time."""
DEVICE_BLOCK_ELEMENTS = 2**24
"""The same on a GPU: 64 MiB of float32, twice, beside the weights."""


def merged(
    weights: Iterable[tuple[str, Tensor]], adapter: Adapter, changes: Mapping[str, Change]
) -> Iterator[tuple[str, Tensor]]:
    """
    Yield the base's tensors with an adapter's changes.

    Args:
        weights: The tensors of the base, by name.
        adapter: The adapter.
        changes: Result of `adapter.changes` for this base.

    Raises:
        WeightsError: The base lacks a tensor that changes.
    """
    tensors = _read(adapter.tensors.values())
    left = set(changes)
    for name, tensor in weights:
        change = changes.get(name)
        left.discard(name)
        yield name, tensor if change is None else _changed(tensor, change, tensors)
    if left:
        raise WeightsError(f"the base has no tensor {min(left)}, which the adapter changes")


def _changed(base: Tensor, change: Change, tensors: Mapping[str, Tensor]) -> Tensor:
    if change.whole is not None:
        base = tensors[change.whole.name]
    if change.factors is None:
        return base
    left, right = _factors(change.factors, tensors)
    product = _Product(base=base, left=left, right=right, scale=change.factors.scale)
    if change.factors.magnitude is not None:
        magnitude = tensors[change.factors.magnitude.name].reshape(-1).float()
        product = product.with_lengths(magnitude, along_columns=change.factors.is_transposed)
    return MergedTensor(product)


def _factors(factors: Factors, tensors: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Return the matrices whose product has the shape of the tensor that it is added to: (.., R, r) and (.., r, C)."""
    a, b = tensors[factors.a.name].float(), tensors[factors.b.name].float()
    if factors.experts > 1:
        a_ErI = a.reshape(factors.experts, -1, a.shape[-1])
        b_EOr = b.reshape(b.shape[0], -1, factors.experts).permute(2, 0, 1)
        if factors.expert is not None:
            assert factors.rows is not None  # noqa: S101 - parts of a stack have both
            return b_EOr[factors.expert, slice(*factors.rows)], a_ErI[factors.expert]
        a, b = a_ErI, b_EOr
    if factors.is_embedding or factors.is_transposed:
        return a.transpose(-2, -1), b.transpose(-2, -1)
    return b, a


@dataclass(frozen=True, slots=True, kw_only=True)
class _Product:
    """`base + scale * left @ right`, times a number for each row or column."""

    base: Tensor
    left: Tensor
    right: Tensor
    scale: float
    lengths: Tensor | None = None
    """Factor of each row, as a column, or of each column, as a row (DoRA)."""

    def with_lengths(self, magnitude: Tensor, *, along_columns: bool) -> "_Product":
        """Return the product with rows, or columns, of these lengths."""
        axis = 0 if along_columns else 1
        whole = torch.empty(self.base.shape, dtype=torch.float32)
        self.write(whole)
        lengths = magnitude / torch.linalg.norm(whole, dim=axis)
        return replace(self, lengths=lengths.unsqueeze(axis))

    def narrow(self, dim: int, start: int, length: int) -> "_Product":
        """Return a part of the sum."""
        dims = self.base.dim()
        dim %= dims
        left = self.left if dim == dims - 1 else self.left.narrow(dim, start, length)
        right = self.right if dim == dims - 2 else self.right.narrow(dim, start, length)
        lengths = self.lengths
        if lengths is not None and lengths.shape[dim] > 1:
            lengths = lengths.narrow(dim, start, length)
        base = self.base.narrow(dim, start, length)
        return replace(self, base=base, left=left, right=right, lengths=lengths)

    def write(self, to: Tensor) -> None:
        """Compute the sum on the device of `to`, and store it there, rounded to its type."""
        if self.base.dim() > 2:
            for place in range(self.base.shape[0]):
                self._of(place).write(to[place])
            return
        elements = BLOCK_ELEMENTS if to.device.type == "cpu" else DEVICE_BLOCK_ELEMENTS
        rows = max(1, elements // max(1, self.base.shape[1]))
        right = self.right.to(to.device)
        for first in range(0, self.base.shape[0], rows):
            span = slice(first, first + rows)
            product = self.left[span].to(to.device) @ right
            product *= self.scale
            total = self.base[span].to(to.device).float() + product
            if self.lengths is not None:
                lengths = self.lengths if self.lengths.shape[0] == 1 else self.lengths[span]
                total *= lengths.to(to.device)
            to[span].copy_(total)

    def _of(self, place: int) -> "_Product":
        return replace(self, base=self.base[place], left=self.left[place], right=self.right[place])


class MergedTensor(Tensor):
    """
    A merged matrix that is not computed yet. Parts of it are not, either; any other use computes it.

    It has type float32 and is on the CPU; copied to a parameter, it is computed on that one's device.
    """

    product: _Product

    @staticmethod
    def __new__(cls: "type[MergedTensor]", product: _Product) -> "MergedTensor":  # noqa: PYI034 - torch makes it
        made = Tensor._make_wrapper_subclass(  # noqa: SLF001 - torch's documented way to make a tensor without values
            cls, product.base.shape, dtype=torch.float32, device=torch.device("cpu")
        )
        assert isinstance(made, MergedTensor)  # noqa: S101
        made.product = product
        return made

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run a function of torch, on the matrix itself where it needs its values."""
        kwargs = kwargs or {}
        if func in _LOOKS:
            return super().__torch_function__(func, types, args, kwargs)  # type: ignore[no-untyped-call]
        if func in _NARROWS:
            return _narrowed(*args, **kwargs)
        if func is Tensor.__getitem__ and (spans := _spans(args[0], args[1])) is not None:
            for dim, (start, length) in enumerate(spans):
                args = (_narrowed(args[0], dim, start, length), *args[1:])
            return args[0]
        if func is Tensor.copy_ and not isinstance(args[0], MergedTensor) and args[0].shape == args[1].shape:
            args[1].product.write(args[0].detach())
            return args[0]
        return cls.__torch_dispatch__(func, types, args, kwargs)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # torch's annotation lacks the class
        cls, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run a function on the computed matrix."""
        found = [computed(arg) for arg in args]
        return func(*found, **{name: computed(value) for name, value in (kwargs or {}).items()})


_LOOKS = frozenset(
    {
        Tensor.shape.__get__,  # type: ignore[attr-defined]
        Tensor.dtype.__get__,  # type: ignore[attr-defined]
        Tensor.device.__get__,
        Tensor.ndim.__get__,  # type: ignore[attr-defined]
        Tensor.is_cuda.__get__,  # type: ignore[attr-defined]
        Tensor.size,
        Tensor.dim,
        Tensor.numel,
        Tensor.nelement,
        Tensor.is_floating_point,
        Tensor.element_size,
        Tensor.__len__,
    }
)
"""Functions that need no values."""
_NARROWS = frozenset({Tensor.narrow, torch.narrow})


def _narrowed(tensor: MergedTensor, dim: int, start: int, length: int) -> MergedTensor:
    return MergedTensor(tensor.product.narrow(dim, start, length))


def _spans(tensor: Tensor, index: Any) -> list[tuple[int, int]] | None:
    """Return start and length of each indexed dimension; None unless all indices are slices without steps."""
    parts = index if isinstance(index, tuple) else (index,)
    if not all(isinstance(part, slice) for part in parts) or len(parts) > tensor.dim():
        return None
    found = []
    for part, extent in zip(parts, tensor.shape, strict=False):
        start, stop, step = part.indices(extent)
        if step != 1:
            return None
        found.append((start, max(0, stop - start)))
    return found


def computed(value: Any) -> Any:
    """Return a merged matrix, or those in a list or tuple, as ordinary tensors; other values as they are."""
    if isinstance(value, MergedTensor):
        whole = torch.empty(value.shape, dtype=torch.float32)
        value.product.write(whole)
        return whole
    if isinstance(value, list | tuple):
        return type(value)(map(computed, value))
    return value


def _read(pieces: Iterable[Piece]) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    by_file: dict[Any, list[str]] = {}
    for piece in pieces:
        by_file.setdefault(piece.file, []).append(piece.name)
    for file, names in by_file.items():
        with safe_open(file, framework="pt") as tensors:
            found |= {name: tensors.get_tensor(name) for name in names}
    return found
