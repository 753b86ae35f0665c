"""tlt.rollout.v1: the public endpoint."""

from collections.abc import Sequence

from tlt_common._generated.tlt.rollout.v1 import rollout_pb2 as pb
from tlt_common._generated.tlt.rollout.v1.rollout_pb2_grpc import RolloutServiceServicer as Servicer
from tlt_common._generated.tlt.rollout.v1.rollout_pb2_grpc import RolloutServiceStub as Stub
from tlt_common._generated.tlt.rollout.v1.rollout_pb2_grpc import add_RolloutServiceServicer_to_server as add_servicer
from tlt_common.domain.fleet import ServerInfo
from tlt_common.domain.ids import DrafterVersion, PolicyVersion
from tlt_common.domain.rollout import Prompt, Sample
from tlt_common.domain.weights import TensorChunk, UpdateResult, WeightsUpdate
from tlt_common.errors import InvalidRequestError
from tlt_common.wire.generation import chunk_from_pb, chunk_to_pb, prompt_from_pb, prompt_to_pb
from tlt_common.wire.weights import source_to_pb, tensor_from_pb, tensor_to_pb

SERVICE_NAME: str = pb.DESCRIPTOR.services_by_name["RolloutService"].full_name

__all__ = [
    "SERVICE_NAME",
    "Servicer",
    "Stub",
    "add_servicer",
    "batch_to_pb",
    "chunk_from_pb",
    "chunk_to_pb",
    "info_from_pb",
    "info_to_pb",
    "pb",
    "prompt_from_pb",
    "prompt_to_pb",
    "result_from_pb",
    "result_to_pb",
    "sample_from_pb",
    "sample_to_pb",
    "update_from_pb",
    "update_to_pb",
]


def batch_to_pb(prompts: Sequence[Prompt], samples: int) -> pb.GenerateBatchRequest:
    return pb.GenerateBatchRequest(prompts=[prompt_to_pb(prompt) for prompt in prompts], samples_per_prompt=samples)


def sample_to_pb(sample: Sample) -> pb.GenerateBatchResponse:
    return pb.GenerateBatchResponse(
        prompt_index=sample.prompt_index,
        sample_index=sample.sample_index,
        response=chunk_to_pb(sample.response),
        finished_count=sample.finished_count,
        total_count=sample.total_count,
        elapsed_s=sample.elapsed_s,
    )


def sample_from_pb(message: pb.GenerateBatchResponse) -> Sample:
    return Sample(
        prompt_index=message.prompt_index,
        sample_index=message.sample_index,
        response=chunk_from_pb(message.response),
        finished_count=message.finished_count,
        total_count=message.total_count,
        elapsed_s=message.elapsed_s,
    )


def update_to_pb(part: WeightsUpdate | TensorChunk) -> pb.UpdateWeightsRequest:
    if isinstance(part, TensorChunk):
        return pb.UpdateWeightsRequest(tensor=tensor_to_pb(part))
    header = pb.UpdateWeightsHeader(policy_version=part.version, source=source_to_pb(part.uri))
    return pb.UpdateWeightsRequest(header=header)


def update_from_pb(message: pb.UpdateWeightsRequest) -> WeightsUpdate | TensorChunk:
    """
    Raises:
        InvalidRequestError: The message carries nothing.
    """
    match message.WhichOneof("part"):
        case "header":
            uri = message.header.source.uri if message.header.HasField("source") else None
            return WeightsUpdate(version=PolicyVersion(message.header.policy_version), uri=uri)
        case "tensor":
            return tensor_from_pb(message.tensor)
        case _:
            raise InvalidRequestError("update part is not set; accepted: header or tensor", field="part")


def result_to_pb(result: UpdateResult) -> pb.UpdateWeightsResponse:
    return pb.UpdateWeightsResponse(
        policy_version=result.version, worker_count=result.workers, elapsed_s=result.elapsed_s
    )


def result_from_pb(message: pb.UpdateWeightsResponse) -> UpdateResult:
    return UpdateResult(
        version=PolicyVersion(message.policy_version), workers=message.worker_count, elapsed_s=message.elapsed_s
    )


def info_to_pb(info: ServerInfo) -> pb.GetServerInfoResponse:
    return pb.GetServerInfoResponse(
        model=info.model,
        vocab_size=info.vocab_size,
        context_length=info.context_length,
        policy_version=info.policy_version,
        drafter_version=info.drafter_version,
        worker_count=info.workers,
        queued_count=info.queued,
        running_count=info.running,
        server_version=info.server_version,
    )


def info_from_pb(message: pb.GetServerInfoResponse) -> ServerInfo:
    return ServerInfo(
        model=message.model,
        vocab_size=message.vocab_size,
        context_length=message.context_length,
        policy_version=PolicyVersion(message.policy_version),
        drafter_version=DrafterVersion(message.drafter_version),
        workers=message.worker_count,
        queued=message.queued_count,
        running=message.running_count,
        server_version=message.server_version,
    )
