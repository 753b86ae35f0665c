"""Format and tensor headers of a drafter, read from its files without loading tensors. Needs no torch."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tlt_common.drafter.format import DrafterFormat
from tlt_common.drafter.published import WAY_OUT
from tlt_common.drafter.reading import format_of
from tlt_common.drafter.tensors import HEAD, MAP, layer_of
from tlt_common.errors import ConfigError, WeightsError, WeightsUnreadableError
from tlt_worker.checkpoints.drafter_pickle import is_pickled, pickled_headers
from tlt_worker.checkpoints.model_config import read_config
from tlt_worker.checkpoints.policy import ModelTensors, TensorHeader, read_headers

_INTEGERS = ("I32", "I64")


def checked_format(directory: Path, target: Mapping[str, Any]) -> DrafterFormat:
    """
    Return the format of a drafter with complete files.

    Raises:
        WeightsError: They do not form a drafter for this target; the message names the file, key or tensor.
    """
    form = read_format(directory, target)
    check_headers(headers_of(directory, form), form)
    return form


def headers_of(directory: Path, form: DrafterFormat) -> dict[str, TensorHeader]:
    """
    Return the headers of a drafter's tensors by canonical name.

    Raises:
        WeightsError: The directory has neither safetensors nor a pickle, or they are damaged.
    """
    found = pickled_headers(directory) if is_pickled(directory) else read_headers(directory)
    return {form.canonical_name(name): header for name, header in found.items()}


def read_format(directory: Path, target: Mapping[str, Any]) -> DrafterFormat:
    """
    Read the format of a drafter from its config.json.

    Raises:
        WeightsError: The file is missing, does not describe a drafter, or describes one for another target.
    """
    try:
        form = format_of(read_config(directory), target)
        form.require_files(path.name for path in directory.iterdir())
    except ConfigError as error:
        kind = WeightsUnreadableError if isinstance(error.__cause__, OSError) else WeightsError
        raise kind(f"{error.message}, with the config.json of a drafter") from error
    except WeightsError as error:
        raise WeightsError(f"{directory}: {error.message}") from error
    return form


def check_headers(headers: Mapping[str, TensorHeader], form: DrafterFormat) -> None:
    """
    Check the tensor headers of a drafter of format `form`, by canonical name.

    Raises:
        WeightsError: A tensor is missing, unknown, or of another shape or type.
    """
    expected = {name: TensorHeader(dtype="BF16", shape=shape) for name, shape in form.tensor_shapes().items()}
    biases = {name: TensorHeader(dtype="BF16", shape=shape) for name, shape in form.bias_shapes().items()}
    expected |= {name: header for name, header in biases.items() if name in headers}
    offered = {name: header for name, header in headers.items() if not form.ignores(name)}
    if more := next((name for name in offered if layer_of(name) >= form.layer_count), None):
        layers = "one layer is" if form.layer_count == 1 else f"{form.layer_count} layers are"
        raise WeightsError(f"the drafter has tensor {more}; by its config.json {layers} run. {WAY_OUT}")
    for name, shape in form.shared_shapes().items():
        found = offered.pop(name, None)
        if found is not None and found.shape != shape:
            raise WeightsError(f"tensor {name} has shape {list(found.shape)}; the target's has {list(shape)}")
    if form.has_map:
        _check_map_header(offered.pop(MAP, None), form)
    if form.trains_head and HEAD not in offered:
        raise WeightsError(f"tensor {HEAD} is missing; a drafter of this architecture must have its own head")
    ModelTensors(headers=expected).require_complete(offered)


def _check_map_header(header: TensorHeader | None, form: DrafterFormat) -> None:
    known = form.draft_vocab_size
    if header is None:
        if known != form.vocab_size:
            raise WeightsError(
                f"tensor {MAP} is missing; accepted: one that maps {known} draft tokens to {form.vocab_size} tokens"
            )
        return
    if header.dtype not in _INTEGERS:
        raise WeightsError(f"tensor {MAP} has type {header.dtype}; accepted: {sorted(_INTEGERS)}")
    if header.shape != (known,):
        raise WeightsError(
            f"tensor {MAP} has shape {list(header.shape)}; accepted: [{known}], the drafter's vocabulary"
        )
