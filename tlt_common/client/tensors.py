"""State dicts as streams of raw bytes. Imports neither torch nor numpy; uses them if the caller has imported them."""

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from tlt_common.domain.weights import INDICES, VALUES, ChangedElements, TensorChunk
from tlt_common.errors import InvalidRequestError
from tlt_common.weights.checkpoint import pieces

_FLOATS = {"bfloat16": "BF16", "float16": "F16", "float32": "F32"}
_INTEGERS = {"int64": "I64"}
TIED_HEAD = "lm_head.weight"


def stream(state_dict: Mapping[str, Any]) -> Iterator[TensorChunk]:
    """
    Split torch tensors (on any device) or numpy arrays into pieces; changed elements are two tensors.

    An output head that is tied to the embedding is omitted, as in checkpoints on disk. Other tensors that share memory
    are sent once per name.

    Raises:
        InvalidRequestError: A value is neither a tensor nor an array, or not bfloat16, float16 or float32.
    """
    for name, value in _sent(state_dict):
        if isinstance(value, ChangedElements):
            yield from _chunks(name + INDICES, value.indices, _INTEGERS)
            yield from _chunks(name + VALUES, value.values, _FLOATS)
        else:
            yield from _chunks(name, value, _FLOATS)


def size_of(state_dict: Mapping[str, Any]) -> int:
    """Return the number of bytes that `stream` yields; 0 for values that it refuses."""
    values: list[Any] = []
    for _, value in _sent(state_dict):
        values += [value.indices, value.values] if isinstance(value, ChangedElements) else [value]
    return sum(int(getattr(value, "nbytes", 0)) for value in values)


def _sent(state_dict: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the tensors to send: all but a head that shares the memory of an earlier tensor."""
    seen: set[tuple[int, tuple[int, ...], tuple[int, ...]]] = set()
    for name, value in state_dict.items():
        if _is_torch(value):
            identity = (value.data_ptr(), tuple(value.shape), tuple(value.stride()))
            if name == TIED_HEAD and value.numel() and identity in seen:
                continue
            seen.add(identity)
        yield name, value


def _chunks(name: str, value: Any, dtypes: Mapping[str, str]) -> Iterator[TensorChunk]:
    if _is_torch(value):
        return pieces(name, _dtype(name, value, dtypes), tuple(value.shape), _torch(value))
    if "numpy" in sys.modules and isinstance(value, sys.modules["numpy"].ndarray):
        return pieces(name, _dtype(name, value, dtypes), value.shape, _numpy(value))
    raise InvalidRequestError(
        f"weights[{name!r}] is a {type(value).__name__}; accepted: torch tensors and numpy arrays",
        field=f"weights[{name!r}]",
    )


def _is_torch(value: Any) -> bool:
    return "torch" in sys.modules and isinstance(value, sys.modules["torch"].Tensor)


def _dtype(name: str, value: Any, known: Mapping[str, str]) -> str:
    dtype = str(value.dtype)
    if (found := known.get(dtype.removeprefix("torch."))) is None:
        raise InvalidRequestError(
            f"weights[{name!r}] has dtype {dtype}; accepted: {', '.join(known)}", field=f"weights[{name!r}]"
        )
    return found


def _torch(value: Any) -> memoryview:
    """Return the raw bytes, row-major. Views the tensor as bytes, since numpy has no bfloat16."""
    torch = sys.modules["torch"]
    if not value.numel():
        return memoryview(b"")  # whose stride may be one that cannot be viewed as bytes
    flat = value.detach().contiguous().cpu().reshape(-1)
    return memoryview(flat.view(torch.uint8).numpy())


def _numpy(value: Any) -> memoryview:
    return memoryview(sys.modules["numpy"].ascontiguousarray(value).reshape(-1).view("uint8"))
