"""
The head in a policy's checkpoint, with which training begins.

It is read once, from the checkpoint that engines are launched with. Later policies bring embedding and vocabulary head
only: what else they have of a head is neither a trainer's nor the fleet's.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from tlt_common.drafter.format import DrafterFormat
from tlt_common.drafter.mtp import MtpFormat
from tlt_common.drafter.tensors import LAYER
from tlt_common.errors import ConfigError, WeightsError
from tlt_common.weights.files import weight_files
from tlt_trainer.drafter.kinds.mtp import FrozenExperts
from tlt_trainer.drafter.shared_weights import opened


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnHead:
    """A checkpoint's head."""

    weights: Mapping[str, Tensor]
    """What is trained, by our names, in float32."""
    experts: FrozenExperts | None = None
    """What is not, in bfloat16."""


def read_own_head(model: Path, form: DrafterFormat) -> OwnHead | None:
    """
    Read the head of a checkpoint. None: drafters of this format begin from nothing.

    Raises:
        ConfigError: The checkpoint lacks a tensor of its head, or it has another shape.
    """
    if not isinstance(form, MtpFormat):
        return None
    try:
        found = _read(model, form)
    except WeightsError as error:
        raise ConfigError(f"model: {error.message}", field="model") from error
    trained = {name: found[name].float() for name in form.tensor_shapes()}
    return OwnHead(weights=trained, experts=_experts_of(found, form))


def _read(model: Path, form: MtpFormat) -> dict[str, Tensor]:
    shapes = form.tensor_shapes() | form.frozen_shapes()
    wanted, found = {form.published_name(name): name for name in shapes}, dict[str, Tensor]()
    for path in weight_files(model):
        with opened(path) as tensors:
            for name in wanted.keys() & set(tensors.keys()):
                found[wanted[name]] = tensors.get_tensor(name)
    for published, name in wanted.items():
        shape = tuple(found[name].shape) if name in found else None
        if shape != shapes[name]:
            was = "missing" if shape is None else f"of shape {list(shape)}"
            raise WeightsError(f"{model}: tensor {published} of its head is {was}; accepted: {list(shapes[name])}")
    return found


def _experts_of(found: Mapping[str, Tensor], form: MtpFormat) -> FrozenExperts | None:
    routing, names = form.routing, form.head.experts
    if routing is None or names is None:
        return None

    def stacked(*projections: str) -> Tensor:
        return torch.stack(
            [
                torch.cat(
                    [
                        found[f"{LAYER}mlp.experts.{number}.{name}_proj.weight"].to(torch.bfloat16)
                        for name in projections
                    ]
                )
                for number in range(routing.count)
            ]
        )

    return FrozenExperts(
        router=found[f"{LAYER}{names.router}.weight"].float(),
        correction=found[f"{LAYER}{names.correction}"].float(),
        gate_up=stacked("gate", "up"),
        down=stacked("down"),
    )
