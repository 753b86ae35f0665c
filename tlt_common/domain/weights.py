"""Weights on their way to engines."""

from dataclasses import dataclass

from tlt_common.domain.ids import PolicyVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorChunk:
    """A tensor, or a piece of one, of a streamed checkpoint."""

    name: str
    dtype: str
    """As safetensors names it: BF16, F16, F32."""
    shape: tuple[int, ...]
    offset_bytes: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsUpdate:
    """What is to be installed: a directory of safetensors, or (uri None) tensors that follow."""

    version: PolicyVersion
    uri: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateResult:
    """What an update did."""

    version: PolicyVersion
    workers: int
    elapsed_s: float
