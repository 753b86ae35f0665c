"""Checkpoints: as a worker checks them, and as workers and gateways stream them."""

from pathlib import Path

from tests.fuzz import safetensors
from tests.fuzz.files import file_target
from tlt_common.errors import WeightsError
from tlt_common.weights.checkpoint import pieces_in
from tlt_common.weights.spool import Spool
from tlt_worker.checkpoints.policy import ModelTensors, TensorHeader

_HEADER = safetensors.header_of({"embed.weight": ("F32", (4, 8)), "norm.weight": ("BF16", (8,))})
_RUNNING = ModelTensors(
    headers={
        "embed.weight": TensorHeader(dtype="F32", shape=(4, 8)),
        "norm.weight": TensorHeader(dtype="F32", shape=(8,)),
    }
)
_INPUTS = safetensors.files(_HEADER)


def _checked(path: Path) -> None:
    _RUNNING.check(path.parent)


def _streamed(path: Path) -> None:
    spool = Spool(path.parent / "spool")
    try:
        for piece in pieces_in(path.parent):
            spool.write(piece.read())
        spool.complete()
    finally:
        spool.remove()


TARGETS = (
    file_target(
        "weights.streamed", _INPUTS, _streamed, file="model.safetensors", refusals=WeightsError, needs_field=False
    ),
    file_target(
        "weights.checked", _INPUTS, _checked, file="model.safetensors", refusals=WeightsError, needs_field=False
    ),
)
