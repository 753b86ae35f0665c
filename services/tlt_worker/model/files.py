"""Checks that a model's files are complete: every tensor of its config.json, with its shape."""

from collections.abc import Mapping
from pathlib import Path

from tlt_common.documents import json_of
from tlt_common.errors import ConfigError, WeightsError
from tlt_worker.checkpoints.model_config import read_config
from tlt_worker.checkpoints.policy import ModelTensors, TensorHeader
from tlt_worker.engine_config import EngineConfig
from tlt_worker.model.requirements import require_runnable
from tlt_worker.model.tensors import expected_tensors, unexpected

_FLOATS = ("BF16", "F16", "F32")
_SIDECARS = ("hf_quant_config.json", "quantize_config.json", "quant_config.json")
"""Files that say by themselves that a checkpoint is quantized."""
_TOKENIZER = "tokenizer.json"


def require_model(directory: Path, engine: EngineConfig) -> ModelTensors:
    """
    Check a model by its files; return its tensors. Reads values of a tied head only.

    Raises:
        ConfigError: An engine cannot run it; the message says why and what is accepted.
    """
    config = read_config(directory)
    family = require_runnable(config, engine)
    for name in _SIDECARS:
        if (directory / name).is_file():
            raise _refused(directory, f"is quantized: it has {name}; accepted: an unquantized checkpoint")
    try:
        tensors = ModelTensors.of(directory)
    except WeightsError as error:
        raise ConfigError(f"model: {error.message}", field="model") from error
    if family is not None:
        expected = expected_tensors(config, family)
        _require_tensors(directory, expected, tensors.headers)
        if more := unexpected(tensors.headers, expected, config, family):
            raise _refused(
                directory,
                f"has {len(more)} tensors that are not in its config.json, first {more[0]} of shape "
                f"{list(tensors.headers[more[0]].shape)}",
            )
    tensors.require_startable(directory)
    _require_tokenizer(directory, config["vocab_size"])
    return tensors


def _require_tensors(
    directory: Path, expected: Mapping[str, tuple[int, ...]], found: Mapping[str, TensorHeader]
) -> None:
    for name, header in found.items():
        if name in expected and header.dtype not in _FLOATS:
            raise _refused(directory, f"has tensor {name} of type {header.dtype}; accepted: {', '.join(_FLOATS)}")
    if missing := [name for name in expected if name not in found]:
        others = [name for name in found if name not in expected]
        instead = f"; it has {others[0]} instead" if others else ""
        raise _refused(
            directory,
            f"lacks {len(missing)} of the {len(expected)} tensors of its config.json, first {missing[0]} of shape "
            f"{list(expected[missing[0]])}{instead}",
        )
    for name, shape in expected.items():
        if found[name].shape != shape:
            raise _refused(
                directory, f"has tensor {name} of shape {list(found[name].shape)}; its config.json says {list(shape)}"
            )


def _require_tokenizer(directory: Path, vocab_size: int) -> None:
    """Check that the tokenizer can belong to this model. Added tokens need no embedding until they are used."""
    path = directory / _TOKENIZER
    if not path.is_file():
        return
    try:
        vocabulary = json_of(path.read_bytes())["model"].get("vocab") or {}
        last = max(vocabulary.values() if isinstance(vocabulary, dict) else [len(vocabulary) - 1], default=0)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _refused(directory, f"has a {_TOKENIZER} that cannot be read: {error!r}") from error
    if last >= vocab_size:
        raise _refused(
            directory, f"has a {_TOKENIZER} with token {last}; its config.json has a vocab_size of {vocab_size}"
        )


def _refused(directory: Path, reason: str) -> ConfigError:
    return ConfigError(f"model: {directory} {reason}", field="model")
