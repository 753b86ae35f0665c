"""The head that a policy's checkpoint brings along: whether it is there, and its tensors."""

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_common.drafter.format import DrafterFormat
from tlt_common.drafter.reading import standard_format
from tlt_common.errors import ConfigError, WeightsError
from tlt_common.weights.checkpoint import read_tensors
from tlt_worker.checkpoints.model_config import read_config
from tlt_worker.checkpoints.policy import read_headers
from tlt_worker.engine_config import EngineConfig


def with_architecture(engine: EngineConfig, model: Path) -> EngineConfig:
    """
    Return the configuration with an architecture of drafters: that of the checkpoint's own head, if it brings one.

    Only where neither an architecture nor a drafter is configured. A config.json alone proves nothing: trainers save
    policies without their head and leave its number. Without a head the architecture stays null, which is EAGLE: on the
    demo's policy, from nothing, it keeps 5.5, 7.1 and 7.5 of 8 tokens after 15, 50 and 150 s of training, a block
    drafter 3.8, 5.7 and 6.9 (docs/results/services.md), EAGLE-3 0.72 of EAGLE's after 50 s. For a 7B policy on an
    H100, rounds of seven drafts take 1.37, 1.13 and 1.39 plain ones (`tlt engine plan --rounds`, calculated): the block
    is slower at first, level after 50 s, and 1.11 times as fast after 150 s. Who trains long may configure it.
    """
    if engine.drafter_architecture is not None or engine.drafter is not None or not brings_head(model):
        return engine
    return engine.model_copy(update={"drafter_architecture": DrafterArchitecture.MTP})


def brings_head(model: Path) -> bool:
    """Return whether a checkpoint has a head that is served. One without weights is taken at its config.json's word."""
    try:
        form = standard_format(DrafterArchitecture.MTP, read_config(model))
    except (ConfigError, WeightsError):
        return False
    if not any(model.glob("*.safetensors")):
        return True
    try:
        headers = read_headers(model)
    except WeightsError:
        return False
    found = {form.canonical_name(name): header.shape for name, header in headers.items()}
    return all(found.get(name) == shape for name, shape in (form.tensor_shapes() | form.frozen_shapes()).items())


def own_head(model: Path, form: DrafterFormat) -> Mapping[str, Tensor]:
    """
    Read the tensors of a checkpoint's head, by the checkpoint's names.

    Raises:
        ConfigError: One, which the message names, is missing or of another shape.
    """
    shapes = form.tensor_shapes() | form.frozen_shapes()
    try:
        return read_tensors(model, {form.published_name(name): shape for name, shape in shapes.items()})
    except WeightsError as error:
        raise ConfigError(
            f"engine.drafter_architecture is {form.architecture}, the head of the model: {error.message}",
            field="engine.drafter_architecture",
        ) from error
