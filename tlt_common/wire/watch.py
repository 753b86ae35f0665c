"""What gateways and workers tell each other of their states <-> tlt.worker.v1."""

from collections.abc import AsyncGenerator, AsyncIterator

from tlt_common._generated.tlt.worker.v1 import worker_pb2 as pb
from tlt_common.domain.arm import ArmWindow
from tlt_common.domain.arm.rounds import WorkedRounds
from tlt_common.domain.bounds import require_name
from tlt_common.domain.fleet import WatchDemand, WatchReport, WorkerInfo
from tlt_common.domain.ids import DrafterVersion, Epoch, PolicyVersion, WorkerId
from tlt_common.domain.pause import Pause
from tlt_common.domain.weights import ServedRelease
from tlt_common.wire.weights import release_from_pb, release_to_pb, source_from_pb, source_to_pb


def demand_to_pb(demand: WatchDemand) -> pb.WatchRequest:
    return pb.WatchRequest(
        gateway_id=demand.gateway_id,
        demand_count=demand.demand,
        serial=demand.serial,
        pause=_pause_to_pb(demand.pause),
    )


def demand_from_pb(message: pb.WatchRequest) -> WatchDemand:
    """
    Raises:
        InvalidRequestError: The gateway's name is too long or not printable.
    """
    require_name("gateway_id", message.gateway_id)
    return WatchDemand(
        gateway_id=message.gateway_id,
        demand=max(0, message.demand_count),
        serial=message.serial,
        pause=_pause_from_pb(message.pause),
    )


async def demands_from_pb(messages: AsyncIterator[pb.WatchRequest]) -> AsyncGenerator[WatchDemand, None]:
    """
    Decode a stream. A function, since an expression would open the stream before it is read: gRPC warns of one that
    never is.

    Raises:
        InvalidRequestError: The gateway's name is too long or not printable.
    """
    async for message in messages:
        yield demand_from_pb(message)


def report_to_pb(report: WatchReport) -> pb.WatchResponse:
    return pb.WatchResponse(
        info=info_to_pb(report.info),
        slot_count=report.slots,
        serial=report.serial,
        pause=_pause_to_pb(report.pause),
        kept_keys=report.kept,
        rounds=_rounds_to_pb(report.rounds) if report.rounds.serial else None,
    )


def report_from_pb(message: pb.WatchResponse) -> WatchReport:
    return WatchReport(
        info=info_from_pb(message.info),
        slots=message.slot_count,
        serial=message.serial,
        pause=_pause_from_pb(message.pause),
        kept=tuple(message.kept_keys),
        rounds=_rounds_from_pb(message.rounds),
    )


def _rounds_to_pb(rounds: WorkedRounds) -> pb.WorkedRounds:
    return pb.WorkedRounds(
        serial=rounds.serial,
        arms=[
            pb.ArmRounds(
                arm=window.arm,
                group=window.group,
                round_count=window.rounds,
                accepted_tokens=window.accepted_tokens,
                produced_tokens=window.produced_tokens,
                kv_tokens=window.kv_tokens,
                elapsed_s=window.elapsed_s,
            )
            for window in rounds.arms
        ],
        prefilled_tokens=rounds.prefilled_tokens,
        prefill_s=rounds.prefill_s,
    )


def _rounds_from_pb(message: pb.WorkedRounds) -> WorkedRounds:
    return WorkedRounds(
        serial=message.serial,
        arms=tuple(
            ArmWindow(
                arm=window.arm,
                group=window.group,
                rounds=window.round_count,
                accepted_tokens=window.accepted_tokens,
                produced_tokens=window.produced_tokens,
                elapsed_s=window.elapsed_s,
                median_reward=0.0,
                kv_tokens=window.kv_tokens,
            )
            for window in message.arms
        ),
        prefilled_tokens=message.prefilled_tokens,
        prefill_s=message.prefill_s,
    )


def _pause_to_pb(pause: Pause) -> pb.Pause:
    return pb.Pause(epoch=pause.epoch, left_s=pause.left_s)


def _pause_from_pb(message: pb.Pause) -> Pause:
    return Pause(epoch=Epoch(message.epoch), left_s=message.left_s if message.left_s > 0 else 0.0)


def info_to_pb(info: WorkerInfo) -> pb.WorkerInfo:
    return pb.WorkerInfo(
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
        training=info.training,
        release=release_to_pb(info.release.id) if info.release else None,
        source=source_to_pb(info.release.uri if info.release else None),
        machine=info.machine,
        receiving=info.receiving,
        finds_stop_strings=info.finds_stop_strings,
        returns_routed_experts=info.returns_routed_experts,
        kv_tokens=info.kv_room,
        releasable=info.releasable,
        released=info.released,
    )


def info_from_pb(message: pb.WorkerInfo) -> WorkerInfo:
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
        training=message.training,
        release=ServedRelease(id=release_from_pb(message.release), uri=source_from_pb(message))
        if message.HasField("release")
        else None,
        machine=message.machine,
        receiving=message.receiving,
        finds_stop_strings=message.finds_stop_strings,
        returns_routed_experts=message.returns_routed_experts,
        kv_room=message.kv_tokens,
        releasable=message.releasable,
        released=message.released,
    )
