"""
The prediction head in a policy's checkpoint, from which training starts.

It is read once, from the checkpoint that engines are launched with. Only embedding and vocabulary head are taken from
later policies, whose prediction heads are ignored.
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
from tlt_common.weights.checkpoint import read_tensors
from tlt_trainer.drafter.kinds.mtp import FrozenExperts


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnHead:
    """A checkpoint's prediction head."""

    weights: Mapping[str, Tensor]
    """Trained weights under our names, in float32."""
    experts: FrozenExperts | None = None
    """Frozen experts, in bfloat16."""


def read_own_head(model: Path, form: DrafterFormat) -> OwnHead | None:
    """
    Read the head of a checkpoint. Return None if drafters of this format are trained from scratch.

    Raises:
        ConfigError: A tensor of the head is missing or of another shape.
    """
    if not isinstance(form, MtpFormat):
        return None
    shapes = form.tensor_shapes() | form.frozen_shapes()
    try:
        read = read_tensors(model, {form.published_name(name): shape for name, shape in shapes.items()})
    except WeightsError as error:
        raise ConfigError(f"model: {error.message}", field="model") from error
    found = {form.canonical_name(name): tensor for name, tensor in read.items()}
    trained = {name: found[name].float() for name in form.tensor_shapes()}
    return OwnHead(weights=trained, experts=_experts_of(found, form))


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
