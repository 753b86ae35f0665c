"""tlt.worker.v1: what gateways ask of one worker."""

from tlt_common._generated.tlt.worker.v1 import worker_pb2 as pb
from tlt_common._generated.tlt.worker.v1.worker_pb2_grpc import WorkerServiceServicer as Servicer
from tlt_common._generated.tlt.worker.v1.worker_pb2_grpc import WorkerServiceStub as Stub
from tlt_common._generated.tlt.worker.v1.worker_pb2_grpc import add_WorkerServiceServicer_to_server as add_servicer
from tlt_common.domain.fleet import WorkerInfo
from tlt_common.domain.ids import DrafterVersion, PolicyVersion, WorkerId
from tlt_common.domain.weights import TensorChunk, WeightsUpdate
from tlt_common.errors import InvalidRequestError
from tlt_common.wire.generation import chunk_from_pb, chunk_to_pb, prompt_from_pb, prompt_to_pb
from tlt_common.wire.weights import source_to_pb, tensor_from_pb, tensor_to_pb

SERVICE_NAME: str = pb.DESCRIPTOR.services_by_name["WorkerService"].full_name
METHODS: tuple[str, ...] = tuple(pb.DESCRIPTOR.services_by_name["WorkerService"].methods_by_name)

__all__ = [
    "METHODS",
    "SERVICE_NAME",
    "Servicer",
    "Stub",
    "add_servicer",
    "chunk_from_pb",
    "chunk_to_pb",
    "info_from_pb",
    "info_to_pb",
    "pb",
    "prompt_from_pb",
    "prompt_to_pb",
    "source_to_pb",
    "stage_from_pb",
    "stage_to_pb",
]


def stage_to_pb(part: WeightsUpdate | TensorChunk) -> pb.StageWeightsRequest:
    if isinstance(part, TensorChunk):
        return pb.StageWeightsRequest(tensor=tensor_to_pb(part))
    header = pb.StageWeightsHeader(policy_version=part.version, source=source_to_pb(part.uri))
    return pb.StageWeightsRequest(header=header)


def stage_from_pb(message: pb.StageWeightsRequest) -> WeightsUpdate | TensorChunk:
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
            raise InvalidRequestError("stage part is not set; accepted: header or tensor", field="part")


def info_to_pb(info: WorkerInfo) -> pb.GetWorkerInfoResponse:
    return pb.GetWorkerInfoResponse(
        worker_id=info.worker_id,
        model=info.model,
        vocab_size=info.vocab_size,
        context_length=info.context_length,
        max_running=info.max_running,
        policy_version=info.policy_version,
        drafter_version=info.drafter_version,
        running_count=info.running,
        device=info.device,
        draining=info.draining,
    )


def info_from_pb(message: pb.GetWorkerInfoResponse) -> WorkerInfo:
    return WorkerInfo(
        worker_id=WorkerId(message.worker_id),
        model=message.model,
        vocab_size=message.vocab_size,
        context_length=message.context_length,
        max_running=message.max_running,
        policy_version=PolicyVersion(message.policy_version),
        drafter_version=DrafterVersion(message.drafter_version),
        running=message.running_count,
        device=message.device,
        draining=message.draining,
    )
