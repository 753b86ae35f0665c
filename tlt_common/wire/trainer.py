"""tlt.trainer.v1: the spot trainer of a worker."""

from tlt_common._generated.tlt.trainer.v1 import trainer_pb2 as pb
from tlt_common._generated.tlt.trainer.v1.trainer_pb2_grpc import TrainerServiceServicer as Servicer
from tlt_common._generated.tlt.trainer.v1.trainer_pb2_grpc import TrainerServiceStub as Stub
from tlt_common._generated.tlt.trainer.v1.trainer_pb2_grpc import add_TrainerServiceServicer_to_server as add_servicer
from tlt_common.domain.fleet import TrainingProgress
from tlt_common.domain.ids import DrafterVersion, PolicyVersion

SERVICE_NAME: str = pb.DESCRIPTOR.services_by_name["TrainerService"].full_name

__all__ = ["SERVICE_NAME", "Servicer", "Stub", "add_servicer", "pb", "progress_from_pb", "progress_to_pb"]


def progress_to_pb(progress: TrainingProgress) -> pb.Progress:
    return pb.Progress(
        training=progress.training,
        step_count=progress.steps,
        token_count=progress.tokens,
        training_s=progress.training_s,
        loss=progress.loss,
        held_out_top1=progress.held_out_top1,
        drafter_version=progress.drafter_version,
        policy_version=progress.policy_version,
        resting=progress.resting,
        gain=progress.gain,
        passes=progress.passes,
        problem=progress.problem,
    )


def progress_from_pb(message: pb.Progress) -> TrainingProgress:
    return TrainingProgress(
        training=message.training,
        steps=message.step_count,
        tokens=message.token_count,
        training_s=message.training_s,
        loss=message.loss,
        held_out_top1=message.held_out_top1,
        drafter_version=DrafterVersion(message.drafter_version),
        policy_version=PolicyVersion(message.policy_version),
        resting=message.resting,
        gain=message.gain if message.HasField("gain") else None,
        passes=message.passes,
        problem=message.problem,
    )
