"""What the files of a drafter say without its tensors being read: its format and their headers. Needs no torch."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tlt_common.drafter.format import DrafterFormat
from tlt_common.drafter.published import WAY_OUT
from tlt_common.drafter.reading import format_of
from tlt_common.drafter.tensors import EMBEDDING, HEAD, INVERSE_MAP, LAYER, MAP, canonical_name, is_derived
from tlt_common.errors import ConfigError, WeightsError, WeightsUnreadableError
from tlt_worker.checkpoints.drafter_pickle import is_pickled, pickled_headers
from tlt_worker.checkpoints.model_config import read_config
from tlt_worker.checkpoints.policy import ModelTensors, TensorHeader, read_headers

_INTEGERS = ("I32", "I64")


def checked_format(directory: Path, target: Mapping[str, Any]) -> DrafterFormat:
    """
    Return the format of a drafter whose files are complete.

    Raises:
        WeightsError: They are not those of a drafter for this target; names the file, key or tensor at fault.
    """
    form = read_format(directory, target)
    check_headers(headers_of(directory), form)
    return form


def headers_of(directory: Path) -> dict[str, TensorHeader]:
    """
    Return the headers of a drafter's tensors, by their canonical names.

    Raises:
        WeightsError: The directory has neither safetensors nor a pickle, or they are damaged.
    """
    found = pickled_headers(directory) if is_pickled(directory) else read_headers(directory)
    return {canonical_name(name): header for name, header in found.items()}


def read_format(directory: Path, target: Mapping[str, Any]) -> DrafterFormat:
    """
    Read the format of a drafter from its config.json.

    Raises:
        WeightsError: The file is missing, does not describe a drafter, or describes one for another target.
    """
    try:
        return format_of(read_config(directory), target)
    except ConfigError as error:
        kind = WeightsUnreadableError if isinstance(error.__cause__, OSError) else WeightsError
        raise kind(f"{error.message}, with the config.json of a drafter") from error
    except WeightsError as error:
        raise WeightsError(f"{directory}: {error.message}") from error


def check_headers(headers: Mapping[str, TensorHeader], form: DrafterFormat) -> None:
    """
    Check the tensors of a drafter of format `form`, by their canonical names.

    Raises:
        WeightsError: A tensor is missing, unknown, or of another shape or type.
    """
    expected = {name: TensorHeader(dtype="BF16", shape=shape) for name, shape in form.tensor_shapes().items()}
    biases = {name: TensorHeader(dtype="BF16", shape=shape) for name, shape in form.bias_shapes().items()}
    expected |= {name: header for name, header in biases.items() if name in headers}
    offered = {name: header for name, header in headers.items() if not is_derived(name)}
    if more := next((name for name in offered if name.startswith("layers.") and not name.startswith(LAYER)), None):
        raise WeightsError(f"the drafter has tensor {more}; only drafters of one layer are supported. {WAY_OUT}")
    for name, shape in _shared(form):
        found = offered.pop(name, None)
        if found is not None and found.shape != shape:
            raise WeightsError(f"tensor {name} has shape {list(found.shape)}; the target's has {list(shape)}")
    if form.is_eagle3:
        _check_map_header(offered.pop(MAP, None), form)
        if HEAD not in offered:
            raise WeightsError(f"tensor {HEAD} is missing; an EAGLE-3 drafter must have its own head")
    ModelTensors(headers=expected).require_complete(offered)


def _shared(form: DrafterFormat) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the tensors that may be in a file but are not loaded: the target's, and those derived from others."""
    whole = (form.vocab_size, form.hidden_size)
    yield EMBEDDING, whole
    if not form.is_eagle3:
        yield HEAD, whole
    else:
        yield INVERSE_MAP, (form.vocab_size,)


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
