"""Weights updates and tensor chunks <-> tlt.common.v1."""

from tlt_common._generated.tlt.common.v1 import common_pb2 as pb
from tlt_common.domain.weights import TensorChunk


def tensor_to_pb(chunk: TensorChunk) -> pb.TensorChunk:
    return pb.TensorChunk(
        name=chunk.name, dtype=chunk.dtype, shape=chunk.shape, offset_bytes=chunk.offset_bytes, data=chunk.data
    )


def tensor_from_pb(message: pb.TensorChunk) -> TensorChunk:
    return TensorChunk(
        name=message.name,
        dtype=message.dtype,
        shape=tuple(message.shape),
        offset_bytes=message.offset_bytes,
        data=message.data,
    )


def source_to_pb(uri: str | None) -> pb.WeightsSource | None:
    """None: tensors follow in the stream."""
    return None if uri is None else pb.WeightsSource(uri=uri)
