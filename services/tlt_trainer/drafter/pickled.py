"""Published drafters whose weights are in pytorch_model.bin, as many of EAGLE's are."""

import io
import pickle
from collections.abc import Mapping

import torch
from safetensors.torch import save
from torch import Tensor

from tlt_common.drafter.meta import WEIGHTS_FILE
from tlt_common.errors import WeightsError

PICKLED_FILE = "pytorch_model.bin"


def as_safetensors(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """
    Return the files of a drafter with its weights in model.safetensors. Nothing in a pickle is executed.

    Raises:
        WeightsError: pytorch_model.bin is damaged, or holds other objects than tensors by name.
    """
    if WEIGHTS_FILE in files or PICKLED_FILE not in files:
        return dict(files)
    tensors = unpickled(PICKLED_FILE, files[PICKLED_FILE])
    return {name: content for name, content in files.items() if name != PICKLED_FILE} | {
        WEIGHTS_FILE: save(tensors, {"format": "pt"})
    }


def unpickled(name: str, content: bytes) -> dict[str, Tensor]:
    """
    Return the tensors of a pickle, each with memory of its own, which safetensors requires.

    Raises:
        WeightsError: It is damaged, or holds other objects than tensors by name.
    """
    try:
        tensors = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError) as error:
        raise WeightsError(f"{name} cannot be read: {error}", field=name) from error
    if not isinstance(tensors, dict) or not all(isinstance(tensor, Tensor) for tensor in tensors.values()):
        raise WeightsError(f"{name} is not a dictionary of tensors", field=name)
    return {str(key): tensor.contiguous().clone() for key, tensor in tensors.items()}
