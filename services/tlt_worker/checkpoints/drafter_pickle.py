"""Drafters published as pickles (`pytorch_model.bin`). No code in a pickle is executed."""

import pickle
from pathlib import Path
from typing import TYPE_CHECKING

from tlt_common.errors import WeightsError, WeightsUnreadableError
from tlt_worker.checkpoints.policy import TensorHeader

if TYPE_CHECKING:
    from torch import Tensor

PICKLED = "pytorch_model.bin"
_TYPES = {"bfloat16": "BF16", "float16": "F16", "float32": "F32", "int64": "I64", "int32": "I32", "bool": "BOOL"}


def is_pickled(directory: Path) -> bool:
    """Return whether a drafter has a pickle but no safetensors."""
    return (directory / PICKLED).is_file() and not any(directory.glob("*.safetensors"))


def pickled_tensors(directory: Path) -> "dict[str, Tensor]":
    """
    Return the tensors of a pickle by name.

    Raises:
        WeightsError: It is damaged, or holds other objects than tensors by name.
    """
    import torch  # the check of a drafter in safetensors needs none

    path = directory / PICKLED
    try:
        tensors = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise WeightsUnreadableError(f"{path} cannot be read: {error}") from error
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError) as error:
        raise WeightsError(f"{path} cannot be read: {error}") from error
    if not isinstance(tensors, dict) or not all(isinstance(tensor, torch.Tensor) for tensor in tensors.values()):
        raise WeightsError(f"{path} is not a dictionary of tensors")
    return {str(name): tensor for name, tensor in tensors.items()}


def pickled_headers(directory: Path) -> dict[str, TensorHeader]:
    """
    Return the headers of a pickle's tensors by name.

    Raises:
        WeightsError: As for `pickled_tensors`.
    """
    headers = {}
    for name, tensor in pickled_tensors(directory).items():
        kind = str(tensor.dtype).removeprefix("torch.")
        headers[name] = TensorHeader(dtype=_TYPES.get(kind, kind), shape=tuple(tensor.shape))
    return headers
