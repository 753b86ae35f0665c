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
    try:
        tensors = torch.load(io.BytesIO(files[PICKLED_FILE]), map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError) as error:
        raise WeightsError(f"{PICKLED_FILE} cannot be read: {error}", field=PICKLED_FILE) from error
    if not isinstance(tensors, dict) or not all(isinstance(tensor, Tensor) for tensor in tensors.values()):
        raise WeightsError(f"{PICKLED_FILE} is no dictionary of tensors", field=PICKLED_FILE)
    # Tensors of a pickle may share memory, which safetensors refuses.
    weights = save({str(name): tensor.contiguous().clone() for name, tensor in tensors.items()}, {"format": "pt"})
    return {name: content for name, content in files.items() if name != PICKLED_FILE} | {WEIGHTS_FILE: weights}
