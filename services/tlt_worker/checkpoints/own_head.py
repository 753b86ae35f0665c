"""The prediction head in a policy's checkpoint: detects it and reads its tensors."""

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
    Return the configuration with a drafter architecture: that of the checkpoint's own head, if it has one.

    Applies only if neither an architecture nor a drafter is configured. A config.json alone is no evidence: trainers
    save policies without the head but keep its number of layers. Without a head the architecture stays null, which
    stands for EAGLE: on the demo's policy, trained from scratch, it keeps 5.5, 7.1 and 7.5 of 8 tokens after 15, 50 and
    150 s of training, a block drafter 3.8, 5.7 and 6.9 (docs/results/services.md), EAGLE-3 0.72 of EAGLE's after 50 s.
    For a 7B policy on an H100, rounds of seven drafts take 1.37, 1.13 and 1.39 plain ones (`tlt engine plan --rounds`,
    calculated): the block is slower at first, level after 50 s, and 1.11 times as fast after 150 s. Configure a block
    drafter for long runs.
    """
    if engine.drafter_architecture is not None or engine.drafter is not None or not brings_head(model):
        return engine
    return engine.model_copy(update={"drafter_architecture": DrafterArchitecture.MTP})


def brings_head(model: Path) -> bool:
    """Return whether a checkpoint has a supported head. If there are no weights, config.json decides."""
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
    Read the tensors of a checkpoint's head, under the checkpoint's names.

    Raises:
        ConfigError: A tensor, which the message names, is missing or of another shape.
    """
    shapes = form.tensor_shapes() | form.frozen_shapes()
    try:
        return read_tensors(model, {form.published_name(name): shape for name, shape in shapes.items()})
    except WeightsError as error:
        raise ConfigError(
            f"engine.drafter_architecture is {form.architecture}, the head of the model: {error.message}",
            field="engine.drafter_architecture",
        ) from error
