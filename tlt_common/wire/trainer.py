"""tlt.trainer.v1: the spot trainer of a worker."""

from tlt_common._generated.tlt.trainer.v1 import trainer_pb2 as pb
from tlt_common._generated.tlt.trainer.v1.trainer_pb2_grpc import TrainerServiceServicer as Servicer
from tlt_common._generated.tlt.trainer.v1.trainer_pb2_grpc import TrainerServiceStub as Stub
from tlt_common._generated.tlt.trainer.v1.trainer_pb2_grpc import add_TrainerServiceServicer_to_server as add_servicer
from tlt_common.domain.fleet import TrainingProgress
from tlt_common.wire.convert import pair

SERVICE_NAME: str = pb.DESCRIPTOR.services_by_name["TrainerService"].full_name

__all__ = ["SERVICE_NAME", "Servicer", "Stub", "add_servicer", "pb", "progress_from_pb", "progress_to_pb"]


progress_to_pb, progress_from_pb = pair(TrainingProgress, pb.Progress)
