"""
The process that reads pickled tensors: `python -m tlt_worker.weights.receiving.pickled`.

Each input line names a file of pickled tensors and a file to write; the answer is a JSON object, which has `error` on
failure. Every pickle is read by a separate fork with limited memory, which it cannot harm beyond itself.

Names in a pickle are looked up in a fixed table and never imported. That does not bound memory (an index of the
pickle's memo takes 9 bytes and allocates any amount), nor does it prevent a pickle from changing attributes of the
objects it names.

Tensors must include their content, as `pickle.dumps` writes them. Handles of GPU or shared memory, as
torch.multiprocessing writes them, can only be opened by the trainer's own children.
"""

import io
import json
import os
import pickle
import resource
import sys
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TextIO

import torch
from safetensors.torch import save_file
from torch import Tensor, UntypedStorage

from tlt_common.domain.transfer import DTYPE_BYTES
from tlt_common.errors import WeightsError

_ACCEPTED = (
    "accepted: [(name, tensor), ...] or {name: tensor} of CPU tensors, pickled with their content (pickle.dumps)"
)
_MALFORMED = (
    pickle.UnpicklingError, EOFError, AttributeError, LookupError, TypeError, ValueError, RuntimeError, ArithmeticError,
    MemoryError,
)  # fmt: skip
"""Exceptions raised by reading a malformed pickle."""
_REDUCTIONS = "torch.multiprocessing.reductions"
"""Module of the functions that open handles."""
OVERHEAD_BYTES = 2**28
"""Memory for what is not content: modules that are imported late, and the pickle's own machinery."""
COPIES = 5
"""The file, the pickle's bytes, the tensors, tensors that are not contiguous once more, and what is written."""


def serve(answers: TextIO) -> None:
    """Read pickles as requested until standard input ends."""
    for line in sys.stdin:
        order = json.loads(line)
        if (child := os.fork()) == 0:
            _read(Path(order["content"]), Path(order["file"]), answers)
        _, status = os.waitpid(child, 0)
        if status:
            how = os.waitstatus_to_exitcode(status)
            print(json.dumps({"error": f"the process that read it ended with status {how}"}), file=answers)


def _read(content: Path, file: Path, answers: TextIO) -> None:
    """Read a pickle in this fork, and exit."""
    status = 1
    try:
        size = content.stat().st_size
        held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        limit = held + OVERHEAD_BYTES + COPIES * size
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        answer = {}
        try:
            write_tensors(content.read_bytes(), file)
        except WeightsError as error:
            answer = {"error": error.message}
        except OSError as error:
            answer = {"unreadable": f"cannot store weights in {file.parent}: {error.strerror or error}"}
        print(json.dumps(answer), file=answers)
        status = 0
    finally:
        os._exit(status)  # nothing of the parent's is cleaned up here


def write_tensors(content: bytes, file: Path) -> None:
    """
    Write pickled tensors to a safetensors file.

    Raises:
        WeightsError: The pickle contains other objects than tensors, or refers to memory of another process.
    """
    save_file(_apart(read_tensors(content)), file)


def _apart(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return copies of tensors that share memory, as a tied head does: the library refuses those."""
    apart: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in tensors.items():
        whole = tensor.detach().contiguous()
        memory = whole.untyped_storage().data_ptr()
        apart[name] = whole.clone() if memory in seen else whole
        seen.add(memory)
    return apart


def read_tensors(content: bytes) -> dict[str, Tensor]:
    """
    Read names and tensors, in a list or dict, or an SGLang bucket: `{"flattened_tensor": bytes, "metadata": [...]}`.

    Raises:
        WeightsError: As for `write_tensors`.
    """
    try:
        found = _Unpickler(io.BytesIO(content)).load()
        if isinstance(found, dict):
            found = _unpacked(found) if "flattened_tensor" in found else found.items()
        pairs = list(found)
        tensors = {str(name): tensor for name, tensor in pairs}
    except WeightsError:
        raise
    except _MALFORMED as error:
        raise _refused(f"it cannot be read: {type(error).__name__}: {error}") from None
    if not tensors or not all(isinstance(tensor, Tensor) for tensor in tensors.values()):
        raise _refused("it contains objects other than tensors")
    return tensors


def _unpacked(bucket: Mapping[str, Any]) -> list[tuple[str, Tensor]]:
    whole = bucket["flattened_tensor"].view(torch.uint8)
    return [
        (part.name, whole[part.start_idx : part.end_idx].clone().view(part.dtype).reshape(part.shape))
        for part in bucket["metadata"]
    ]


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if module == _REDUCTIONS or name == "LocalSerializedTensor":
            raise _refused(f"it contains a handle to the trainer's memory ({name}) instead of the content")
        try:
            return _NAMES[module, name]
        except KeyError:
            raise _refused(f"it names {module}.{name}") from None


@dataclass(frozen=True, slots=True)
class _Storage:
    """Bytes and their element type."""

    content: UntypedStorage
    dtype: torch.dtype


def _tensor(storage: _Storage, offset: int, size: Any, stride: Any, *_: Any) -> Tensor:
    """Return a tensor of a storage. `set_` would extend a storage that is too short."""
    last = offset + sum((extent - 1) * step for extent, step in zip(size, stride, strict=True))
    if min((offset, *size, *stride)) < 0 or (
        0 not in size and (last + 1) * storage.dtype.itemsize > len(storage.content)
    ):
        raise _refused(f"a tensor of shape {list(size)} exceeds its content")
    tensor = torch.empty(0, dtype=storage.dtype)
    return tensor.set_(storage.content, offset, tuple(size), tuple(stride))


def _parameter(data: Tensor, *_: Any) -> Tensor:
    return data


def _content(data: bytes) -> _Storage:
    storage = torch.load(io.BytesIO(data), weights_only=True)
    return _Storage(storage._untyped_storage, storage.dtype)  # noqa: SLF001 - its public form warns of itself


def _refused(why: str) -> WeightsError:
    return WeightsError(f"serialized_named_tensors: {why}; {_ACCEPTED}", field="serialized_named_tensors")


_NAMES: Mapping[tuple[str, str], Callable[..., Any]] = {
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    ("torch._utils", "_rebuild_parameter"): _parameter,
    ("torch.storage", "_load_from_bytes"): _content,
    ("torch", "Size"): torch.Size,
    ("collections", "OrderedDict"): OrderedDict,
    ("sglang.srt.weight_sync.tensor_bucket", "FlattenedTensorMetadata"): SimpleNamespace,
    **{("torch", name): getattr(torch, name) for name in (*DTYPE_BYTES, "int64")},
}


if __name__ == "__main__":
    torch.set_num_threads(1)  # a fork has no other threads
    lines = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    serve(lines)
