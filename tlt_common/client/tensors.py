"""State dicts as streams of raw bytes. Imports neither torch nor numpy; uses them if the caller has imported them."""

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from tlt_common.checkpoint import pieces
from tlt_common.domain.weights import TensorChunk
from tlt_common.errors import InvalidRequestError

_TORCH_DTYPES = {"torch.bfloat16": "BF16", "torch.float16": "F16", "torch.float32": "F32"}
_NUMPY_DTYPES = {"bfloat16": "BF16", "float16": "F16", "float32": "F32"}
TIED_HEAD = "lm_head.weight"


def stream(state_dict: Mapping[str, Any]) -> Iterator[TensorChunk]:
    """
    Split torch tensors (on any device) or numpy arrays into pieces.

    An output head that is tied to the embedding is omitted, as in checkpoints on disk. Other tensors that share memory
    are sent once per name.

    Raises:
        InvalidRequestError: A value is neither a tensor nor an array, or not bfloat16, float16 or float32.
    """
    seen: set[tuple[int, tuple[int, ...], tuple[int, ...]]] = set()
    for name, value in state_dict.items():
        if "torch" in sys.modules and isinstance(value, sys.modules["torch"].Tensor):
            identity = (value.data_ptr(), tuple(value.shape), tuple(value.stride()))
            if name == TIED_HEAD and value.numel() and identity in seen:
                continue
            seen.add(identity)
            yield from pieces(name, _dtype(name, str(value.dtype), _TORCH_DTYPES), tuple(value.shape), _torch(value))
        elif "numpy" in sys.modules and isinstance(value, sys.modules["numpy"].ndarray):
            yield from pieces(name, _dtype(name, str(value.dtype), _NUMPY_DTYPES), value.shape, _numpy(value))
        else:
            raise InvalidRequestError(
                f"weights[{name!r}] is a {type(value).__name__}; accepted: torch tensors and numpy arrays",
                field=f"weights[{name!r}]",
            )


def _dtype(name: str, dtype: str, known: Mapping[str, str]) -> str:
    if dtype not in known:
        raise InvalidRequestError(
            f"weights[{name!r}] has dtype {dtype}; accepted: bfloat16, float16, float32", field=f"weights[{name!r}]"
        )
    return known[dtype]


def _torch(value: Any) -> memoryview:
    """Return the raw bytes, row-major. Views the tensor as bytes, since numpy has no bfloat16."""
    torch = sys.modules["torch"]
    flat = value.detach().contiguous().cpu().reshape(-1)
    return memoryview(flat.view(torch.uint8).numpy())


def _numpy(value: Any) -> memoryview:
    return memoryview(sys.modules["numpy"].ascontiguousarray(value).reshape(-1).view("uint8"))
