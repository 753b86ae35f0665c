"""
Drafter directories: reads and validates drafters, and writes blank ones for the launch.

All checks precede the call of SGLang, which loads tensors one by one into the running drafter: a bad checkpoint would
leave it half replaced.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from tlt_common.drafter.format import DrafterFormat, require_fit
from tlt_common.drafter.meta import WEIGHTS_FILE
from tlt_common.drafter.tensors import HEAD, MAP
from tlt_common.errors import ConfigError, WeightsError, WeightsUnreadableError
from tlt_common.weights.files import weight_files
from tlt_worker.checkpoints.drafter_files import check_headers, headers_of, read_format
from tlt_worker.checkpoints.drafter_format import new_format, require_configured, served_format
from tlt_worker.checkpoints.drafter_pickle import is_pickled, pickled_tensors
from tlt_worker.checkpoints.model_config import read_config
from tlt_worker.checkpoints.own_head import own_head
from tlt_worker.engine_config import EngineConfig

SHARED_FILE = "shared.json"
"""Where a drafter is only counted, beside its config.json: the ends of the names of what its target has."""
Tensors = list[tuple[str, Tensor]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedDrafter:
    """A validated drafter for an engine launched with its format."""

    form: DrafterFormat
    tensors: Mapping[str, Tensor]

    def fitted(self, running: DrafterFormat) -> Tensors:
        """
        Return the tensors to load into an engine of format `running`.

        If a head has fewer tokens than the engine reserves, it is padded with draft tokens that map to no target token.
        """
        tensors = dict(self.tensors)
        missing = running.draft_vocab_size - self.form.draft_vocab_size
        if self.form.has_map and missing:
            first = self.form.draft_vocab_size
            nowhere = running.vocab_size - torch.arange(first, first + missing)
            head = tensors[HEAD]
            tensors[HEAD] = torch.cat([head, head.new_zeros(missing, head.shape[1])])
            tensors[MAP] = torch.cat([tensors[MAP], nowhere])
        return [(self.form.published_name(name), tensor) for name, tensor in tensors.items()]


def first_drafter(engine: EngineConfig, target: Mapping[str, Any]) -> tuple[DrafterFormat, Tensors]:
    """
    Return the format to launch an engine with, and the tensors to load right away: those of the given drafter, or none.

    Raises:
        ConfigError: The given drafter does not fit this target, or is not the configured kind; or the target does not
            have the layers that drafters would read.
    """
    directory, room = engine.drafter, engine.draft_vocabulary or 0
    if directory is None:
        return new_format(engine, target), []
    try:
        form = read_format(directory, target)
        require_configured(engine, directory, form)
        given = load_drafter(directory, form)
    except WeightsError as error:
        raise ConfigError(f"engine.drafter: {error.message}", field="engine.drafter") from error
    if form.has_map:
        form = replace(form, draft_vocab_size=min(form.vocab_size, max(form.draft_vocab_size, room)))
    form = served_format(form, engine)
    return form, given.fitted(form)


def next_drafter(directory: Path, running: DrafterFormat, target: Mapping[str, Any]) -> Tensors:
    """
    Return the tensors that replace the drafter of an engine of format `running`.

    Raises:
        WeightsError: The new drafter is unreadable, or does not fit this engine.
    """
    form = read_format(directory, target)
    require_fit(running, form)
    return load_drafter(directory, form).fitted(running)


def load_drafter(directory: Path, form: DrafterFormat) -> CheckedDrafter:
    """
    Read and check the tensors of a drafter of format `form`.

    Biases are added as zeros if the file has none: SGLang's drafter has them, and they must not keep an old value.

    Raises:
        WeightsError: The file is unreadable; a tensor is missing, unknown, of another shape or type, or not finite; or
            a map leaves the vocabulary or maps two draft tokens to one target token.
    """
    check_headers(headers_of(directory, form), form)
    wanted = {*form.tensor_shapes(), *form.bias_shapes(), MAP}
    try:
        tensors = {name: tensor for given, tensor in _read(directory) if (name := form.canonical_name(given)) in wanted}
    except OSError as error:
        raise WeightsUnreadableError(f"{directory} cannot be read: {error}") from error
    except SafetensorError as error:
        raise WeightsError(f"{directory} is not readable: {error}") from error
    for name, tensor in tensors.items():
        if not bool(torch.isfinite(tensor).all()):
            raise WeightsError(f"tensor {name} of {directory} has values that are not finite")
    for name, shape in form.bias_shapes().items():
        tensors.setdefault(name, torch.zeros(shape, dtype=tensors[next(iter(form.tensor_shapes()))].dtype))
    if form.has_map:
        known = form.draft_vocab_size
        tensors[MAP] = tensors.get(MAP, torch.zeros(known)).to(torch.int64)
        _check_map(tensors[MAP], form)
    return CheckedDrafter(form=form, tensors=tensors)


def _read(directory: Path) -> Iterator[tuple[str, Tensor]]:
    if is_pickled(directory):
        yield from pickled_tensors(directory).items()
        return
    for file in weight_files(directory):
        yield from load_file(file).items()


def write_launch_drafter(directory: Path, form: DrafterFormat, model: Path, dtype: torch.dtype) -> None:
    """
    Write the drafter to launch an engine with: the head of the model's checkpoint, or zeros.

    Raises:
        ConfigError: The checkpoint's head has this format but lacks a tensor.
    """
    directory.mkdir(parents=True, exist_ok=True)
    if not form.is_targets_own:
        write_blank_drafter(directory, form, read_config(model), dtype)
        return
    save_file(dict(own_head(model, form)), directory / WEIGHTS_FILE, {"format": "pt"})
    write_served_config(directory, form, read_config(model))


def write_blank_drafter(directory: Path, form: DrafterFormat, target: Mapping[str, Any], dtype: torch.dtype) -> None:
    """Write a drafter of zeros: the engine needs one of the right format before the first real one is trained."""
    directory.mkdir(parents=True, exist_ok=True)
    tensors = {name: torch.zeros(shape, dtype=dtype) for name, shape in form.tensor_shapes().items()}
    for name, tensor in tensors.items():
        if "norm" in name:
            tensor.fill_(1.0)
    tensors |= {name: torch.zeros(shape, dtype=dtype) for name, shape in form.bias_shapes().items()}
    if form.has_map:
        tensors[MAP] = torch.zeros(form.draft_vocab_size, dtype=torch.int64)
    save_file(tensors, directory / WEIGHTS_FILE)
    write_served_config(directory, form, target)


def write_served_config(directory: Path, form: DrafterFormat, target: Mapping[str, Any]) -> None:
    """
    Write the config.json that makes SGLang choose the class that runs the drafter.

    EAGLE-3's fields make the target return the states that the drafter reads, and EAGLE's field sets the number of head
    rows copied from the target, for every architecture.
    """
    reads = {"use_aux_hidden_state": True, "eagle_aux_hidden_state_layer_ids": list(form.layers)}
    config = {
        **form.config(target),
        "architectures": [form.served_as],
        **({"eagle_config": reads} if form.layers else {}),
        **({"hot_vocab_size": form.head_rows} if form.head_rows else {}),
    }
    (directory / "config.json").write_text(json.dumps(config, indent=1))


def _check_map(map_D: Tensor, form: DrafterFormat) -> None:
    target_token_D = map_D + torch.arange(len(map_D))
    outside = ((target_token_D < 0) | (target_token_D >= form.vocab_size)).nonzero().flatten().tolist()
    if outside:
        token = int(target_token_D[outside[0]])
        raise WeightsError(
            f"tensor {MAP} maps draft token {outside[0]} to {token}; accepted: tokens 0 to {form.vocab_size - 1}"
        )
    tokens, counts = torch.unique(target_token_D, return_counts=True)
    if bool((counts > 1).any()):
        twice = int(tokens[counts > 1][0])
        both = (target_token_D == twice).nonzero().flatten().tolist()
        raise WeightsError(f"tensor {MAP} maps draft tokens {both[0]} and {both[1]} to the same token {twice}")
