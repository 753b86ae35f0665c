"""
Drafters as directories: read, checked against the engine's form, and written blank for the launch.

Everything is checked here, before SGLang is asked: what it is given, it loads tensor by tensor into the drafter that
runs, and a bad one would leave that half replaced.
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

from tlt_common.domain.drafter import DrafterModel
from tlt_common.errors import ConfigError, WeightsError
from tlt_worker.engine.form import DrafterForm, form_of, require_fit, standard_form
from tlt_worker.engine.weights import TensorHeader, compare, read_headers
from tlt_worker.model_config import read_config

MAP = "d2t"
"""Map of an EAGLE-3 drafter: [D], target token minus draft token for each of its D draft tokens."""
_INVERSE = "t2d"
"""Says which target tokens are in the map. It follows from the map."""
_HEAD, _EMBEDDING, _BIAS = "lm_head.weight", "embed_tokens.weight", "fc.bias"
_INTEGERS = {"I64": torch.int64, "I32": torch.int32}

Tensors = list[tuple[str, Tensor]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedDrafter:
    """A drafter that was looked at, ready for an engine that is launched with its form."""

    form: DrafterForm
    tensors: Mapping[str, Tensor]

    def fitted(self, running: DrafterForm) -> Tensors:
        """
        Return what an engine of form `running` loads: of an EAGLE-3 drafter whose head knows fewer tokens than the
        engine has room for, the head is filled up with draft tokens that stand for no target token.
        """
        tensors = dict(self.tensors)
        missing = running.draft_vocab_size - self.form.draft_vocab_size
        if self.form.kind == DrafterModel.EAGLE3 and missing:
            first = self.form.draft_vocab_size
            nowhere = running.vocab_size - torch.arange(first, first + missing)
            head = tensors[_HEAD]
            tensors[_HEAD] = torch.cat([head, head.new_zeros(missing, head.shape[1])])
            tensors[MAP] = torch.cat([tensors[MAP], nowhere])
        return list(tensors.items())


def first_drafter(
    directory: Path | None, target: Mapping[str, Any], kind: DrafterModel | None, draft_vocabulary: int | None
) -> tuple[DrafterForm, Tensors]:
    """
    Return the form to launch an engine with and what it loads at once: the given drafter, or nothing.

    `kind` None is that of the given drafter, or EAGLE; `draft_vocabulary`, the tokens for which the head of an EAGLE-3
    drafter has room, None those that the given drafter's knows.

    Raises:
        ConfigError: The given drafter is not one for this target, or of another kind than wanted.
    """
    try:
        if directory is None:
            return standard_form(kind or DrafterModel.EAGLE, target, draft_vocabulary=draft_vocabulary), []
        form = read_form(directory, target)
        if kind is not None and kind != form.kind:
            raise ConfigError(
                f"engine.drafter_kind is {kind}; the drafter at {directory} is {form.kind}", field="engine.drafter_kind"
            )
        given = load_drafter(directory, form)
    except WeightsError as error:
        raise ConfigError(f"engine.drafter: {error.message}", field="engine.drafter") from error
    if form.kind == DrafterModel.EAGLE3:
        room = min(form.vocab_size, max(form.draft_vocab_size, draft_vocabulary or 0))
        form = replace(form, draft_vocab_size=room)
    return form, given.fitted(form)


def next_drafter(directory: Path, running: DrafterForm, target: Mapping[str, Any]) -> Tensors:
    """
    Return what an engine of form `running` loads in place of the drafter it has.

    Raises:
        WeightsError: The offered drafter is unreadable, or not one for this engine.
    """
    form = read_form(directory, target)
    require_fit(running, form)
    return load_drafter(directory, form).fitted(running)


def read_form(directory: Path, target: Mapping[str, Any]) -> DrafterForm:
    """
    Read the form of a drafter from its config.json.

    Raises:
        WeightsError: It is missing, or no drafter's, or of one for another target.
    """
    try:
        return form_of(read_config(directory), target)
    except ConfigError as error:
        raise WeightsError(f"{error.message}, with the config.json of a drafter") from error
    except WeightsError as error:
        raise WeightsError(f"{directory}: {error.message}") from error


def load_drafter(directory: Path, form: DrafterForm) -> CheckedDrafter:
    """
    Read the tensors of a drafter whose configuration says `form`, and check them.

    `fc.bias` is added as zeros if the file has none: SGLang's drafter has one, and it must not keep an old value.

    Raises:
        WeightsError: Unreadable, a tensor missing, unknown, of another shape or type, or not finite, or an EAGLE-3
            map that leaves the vocabulary or sends two draft tokens to one.
    """
    headers = {_canonical(name): header for name, header in read_headers(directory).items()}
    _check_headers(headers, form)
    wanted = {*form.shapes(), _BIAS, MAP}
    try:
        read = (item for file in sorted(directory.glob("*.safetensors")) for item in load_file(file).items())
        tensors = {name: tensor for given, tensor in read if (name := _canonical(given)) in wanted}
    except (OSError, SafetensorError) as error:
        raise WeightsError(f"{directory} is not readable: {error}") from error
    for name, tensor in tensors.items():
        if not bool(torch.isfinite(tensor).all()):
            raise WeightsError(f"tensor {name} of {directory} has values that are not finite")
    tensors.setdefault(_BIAS, torch.zeros(form.hidden_size, dtype=tensors["fc.weight"].dtype))
    if form.kind == DrafterModel.EAGLE3:
        known = form.draft_vocab_size
        tensors[MAP] = tensors.get(MAP, torch.zeros(known)).to(torch.int64)
        _check_map(tensors[MAP], form)
    return CheckedDrafter(form=form, tensors=tensors)


def write_blank_drafter(directory: Path, form: DrafterForm, target: Mapping[str, Any], dtype: torch.dtype) -> None:
    """Write a drafter of zeros: the engine needs one of the right form before the first real one is trained."""
    directory.mkdir(parents=True, exist_ok=True)
    tensors = {name: torch.zeros(shape, dtype=dtype) for name, shape in form.shapes().items()}
    for name, tensor in tensors.items():
        if "norm" in name:
            tensor.fill_(1.0)
    tensors[_BIAS] = torch.zeros(form.hidden_size, dtype=dtype)
    if form.kind == DrafterModel.EAGLE3:
        tensors[MAP] = torch.zeros(form.draft_vocab_size, dtype=torch.int64)
    save_file(tensors, directory / "model.safetensors")
    (directory / "config.json").write_text(json.dumps(form.config(target), indent=1))


def _canonical(name: str) -> str:
    """Name a tensor as SGLang does; EAGLE-3's authors call its layer `midlayer`."""
    return name.removeprefix("model.").replace("midlayer.", "layers.0.")


def _check_headers(headers: dict[str, TensorHeader], form: DrafterForm) -> None:
    expected = {name: TensorHeader(dtype="BF16", shape=shape) for name, shape in form.shapes().items()}
    if _BIAS in headers:
        expected[_BIAS] = TensorHeader(dtype="BF16", shape=(form.hidden_size,))
    offered = dict(headers)
    for name, shape in _shared(form):
        found = offered.pop(name, None)
        if found is not None and found.shape != shape:
            raise WeightsError(f"tensor {name} has shape {list(found.shape)}; the target's has {list(shape)}")
    if form.kind == DrafterModel.EAGLE3:
        _check_map_header(offered.pop(MAP, None), form)
        if _HEAD not in offered:
            raise WeightsError(f"tensor {_HEAD} is missing; accepted: an EAGLE-3 drafter with a head of its own")
    compare(expected, offered)


def _shared(form: DrafterForm) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Tensors that may be in a file and are not loaded: the target's, and what follows from others."""
    whole = (form.vocab_size, form.hidden_size)
    yield _EMBEDDING, whole
    if form.kind == DrafterModel.EAGLE:
        yield _HEAD, whole
    else:
        yield _INVERSE, (form.vocab_size,)


def _check_map_header(header: TensorHeader | None, form: DrafterForm) -> None:
    known = form.draft_vocab_size
    if header is None:
        if known != form.vocab_size:
            raise WeightsError(
                f"tensor {MAP} is missing: which {known} of {form.vocab_size} tokens does the head know?"
            )
        return
    if header.dtype not in _INTEGERS:
        raise WeightsError(f"tensor {MAP} has type {header.dtype}; accepted: {sorted(_INTEGERS)}")
    if header.shape != (known,):
        raise WeightsError(f"tensor {MAP} has shape {list(header.shape)}; the drafter's vocabulary has [{known}]")


def _check_map(map_D: Tensor, form: DrafterForm) -> None:
    target_token_D = map_D + torch.arange(len(map_D))
    outside = ((target_token_D < 0) | (target_token_D >= form.vocab_size)).nonzero().flatten().tolist()
    if outside:
        token = int(target_token_D[outside[0]])
        raise WeightsError(
            f"tensor {MAP} sends draft token {outside[0]} to {token}; accepted: tokens 0 to {form.vocab_size - 1}"
        )
    tokens, counts = torch.unique(target_token_D, return_counts=True)
    if bool((counts > 1).any()):
        twice = int(tokens[counts > 1][0])
        both = (target_token_D == twice).nonzero().flatten().tolist()
        raise WeightsError(f"tensor {MAP} sends draft tokens {both[0]} and {both[1]} both to token {twice}")
