"""Converts a drafter from its authors' format to the format of this suite's engines and trainers."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from tlt_common.drafter.format import DrafterFormat
from tlt_common.drafter.meta import CONFIG_FILE, WEIGHTS_FILE
from tlt_common.drafter.reading import format_of
from tlt_common.drafter.tensors import EMBEDDING, HEAD, MAP, is_derived
from tlt_common.errors import ConfigError, TltError, WeightsError
from tlt_common.whole_file import write_whole
from tlt_trainer.drafter.files import config_of, require_tensors, unpickled
from tlt_trainer.drafter.shared_weights import read_config
from tlt_trainer.offline.exporting import require_empty
from tlt_trainer.store.storage import read_uri

_SHOWN = ("architectures", "num_hidden_layers", "eagle_config", "draft_vocab_size")


def import_to(source: str, to: Path, model: Path) -> list[str]:
    """
    Write a public drafter in the suite's format; return the changes, one per line.

    Args:
        source: Directory of the drafter, as path or fsspec URL.
        to: Directory to write, absent or empty.
        model: Directory of the target's checkpoint.

    Raises:
        ConfigError: An argument is invalid, or the drafter belongs to another target or has unsupported features; the
            message names them and what is accepted.
    """
    require_empty(to, "OUT")
    target = read_config(model)
    try:
        written, changes = imported(read_uri(source.rstrip("/"), mark=CONFIG_FILE), target)
    except TltError as error:
        raise ConfigError(f"{source}: {error.message}", field="source") from error
    try:
        to.mkdir(parents=True, exist_ok=True)
        for name, content in written.items():
            write_whole(to / name, content)
    except OSError as error:
        raise ConfigError(f"OUT: {to} cannot be written: {error}", field="to") from error
    return changes


def imported(files: Mapping[str, bytes], target: Mapping[str, Any]) -> tuple[dict[str, bytes], list[str]]:
    """
    Return the files of a drafter in the suite's format, config.json last, and the changes.

    Raises:
        WeightsError: The drafter is damaged, belongs to another target, or has unsupported features.
    """
    config = config_of(files)
    form = format_of(config, target)
    form.require_files(files)
    names, published = _tensors(files)
    found = {form.canonical_name(name): tensor for name, tensor in published.items()}
    require_tensors(found, form)
    own = {name: form.published_name(name) for name in found.keys() & _kept(form)}
    kept = {published: found[name].contiguous() for name, published in own.items()}
    written = form.config(target)
    changes = [f"{key}: {config.get(key)!r} -> {written[key]!r}" for key in _SHOWN if _differs(config, written, key)]
    names_now = {name: own.get(form.canonical_name(name), form.canonical_name(name)) for name in sorted(published)}
    changes += [f"{name} -> {now}" for name, now in names_now.items() if name != now]
    changes += [f"{name} left out: {_reason(form, name)}" for name in sorted(found.keys() - own.keys())]
    changes += [f"{name} -> {WEIGHTS_FILE}" for name in names if name != WEIGHTS_FILE]
    return {
        WEIGHTS_FILE: save(kept, {"format": "pt"}),
        CONFIG_FILE: json.dumps(written, indent=2).encode() + b"\n",
    }, changes


def _reason(form: DrafterFormat, name: str) -> str:
    if name in {EMBEDDING, HEAD}:
        return "the target has it"
    return "it follows from the others" if is_derived(name) or name in form.shared_shapes() else "it has no use"


def _kept(form: DrafterFormat) -> set[str]:
    return {*form.tensor_shapes(), *form.bias_shapes(), *((MAP,) if form.has_map else ())}


def _differs(config: Mapping[str, Any], written: Mapping[str, Any], key: str) -> bool:
    return key in written and config.get(key) != written[key]


def _tensors(files: Mapping[str, bytes]) -> tuple[list[str], dict[str, Tensor]]:
    """Return the names of the weight files and their tensors. Pickles are used only if there is nothing else."""
    for suffix in (".safetensors", ".bin"):
        if names := sorted(name for name in files if name.endswith(suffix)):
            tensors: dict[str, Tensor] = {}
            for name in names:
                tensors |= _loaded(name, files[name])
            return names, tensors
    raise WeightsError(f"the drafter has no {WEIGHTS_FILE} and no pytorch_model.bin")


def _loaded(name: str, content: bytes) -> dict[str, Tensor]:
    if name.endswith(".bin"):
        return unpickled(name, content)
    try:
        return load(content)
    except SafetensorError as error:
        raise WeightsError(f"{name} cannot be read: {error}") from error
