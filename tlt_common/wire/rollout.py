"""tlt.rollout.v1: the public endpoint."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tlt_common._generated.tlt.common.v1 import common_pb2 as common
from tlt_common._generated.tlt.rollout.v1 import rollout_pb2 as pb
from tlt_common._generated.tlt.rollout.v1.rollout_pb2_grpc import RolloutServiceServicer as Servicer
from tlt_common._generated.tlt.rollout.v1.rollout_pb2_grpc import RolloutServiceStub as Stub
from tlt_common._generated.tlt.rollout.v1.rollout_pb2_grpc import add_RolloutServiceServicer_to_server as add_servicer
from tlt_common.domain.batch import Batch, Sample, SampleStart, at_index
from tlt_common.domain.bounds import MAX_ABORTED, MAX_INTERNAL_ID, require_count, require_name
from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_common.domain.pause import Pause, PauseMode
from tlt_common.domain.prompt import Prompt
from tlt_common.domain.server_info import Bubbles, ServerInfo
from tlt_common.domain.weights import UpdateResult
from tlt_common.errors import InvalidRequestError
from tlt_common.wire.convert import Parts, numbers_of, pair
from tlt_common.wire.generation import chunk_from_pb, chunk_to_pb, ids_from_pb, prompt_from_pb, prompt_to_pb
from tlt_common.wire.weights import update_and_tensors, update_to_pb

if TYPE_CHECKING:
    from tlt_common._generated.tlt.rollout.v1.rollout_pb2_grpc import RolloutServiceAsyncStub as AsyncStub
else:
    AsyncStub = Stub  # the type of a stub on an asyncio channel exists for type checkers only

SERVICE_NAME: str = pb.DESCRIPTOR.services_by_name["RolloutService"].full_name

__all__ = [
    "SERVICE_NAME",
    "AsyncStub",
    "Servicer",
    "Stub",
    "aborted_from_pb",
    "add_servicer",
    "announced_from_pb",
    "announced_to_pb",
    "batch_from_pb",
    "batch_to_pb",
    "chunk_from_pb",
    "chunk_to_pb",
    "info_from_pb",
    "info_to_pb",
    "pause_from_pb",
    "pause_to_pb",
    "pb",
    "prompt_from_pb",
    "prompt_to_pb",
    "result_from_pb",
    "result_to_pb",
    "sample_from_pb",
    "sample_to_pb",
    "update_and_tensors",
    "update_to_pb",
]


def batch_to_pb(batch: Batch) -> pb.GenerateBatchRequest:
    return pb.GenerateBatchRequest(
        prompts=[prompt_to_pb(prompt) for prompt in batch.prompts],
        samples_per_prompt=batch.samples_per_prompt,
        stream_tokens=batch.stream_tokens,
        samples=[
            pb.SampleStart(
                prompt_index=start.prompt_index,
                sample_index=start.sample_index,
                prefix_token_ids=start.prefix_token_ids,
                begun_version=start.begun_version,
            )
            for start in batch.starts
        ],
    )


def batch_from_pb(message: pb.GenerateBatchRequest) -> Batch:
    """
    Decode a batch.

    Raises:
        InvalidRequestError: A sampling parameter is out of range; `field` names its prompt.
    """
    starts = [
        SampleStart(
            prompt_index=start.prompt_index,
            sample_index=start.sample_index,
            prefix_token_ids=ids_from_pb(f"samples[{place}].prefix_token_ids", start.prefix_token_ids),
            begun_version=PolicyVersion(start.begun_version) if start.HasField("begun_version") else None,
        )
        for place, start in enumerate(message.samples)
    ]
    return Batch(
        prompts=_prompts_from_pb(message.prompts),
        samples_per_prompt=message.samples_per_prompt,
        stream_tokens=message.stream_tokens,
        starts=starts,
    )


def aborted_from_pb(message: pb.AbortRequest) -> list[RequestId]:
    """
    Return the ids of requests to abort.

    Raises:
        InvalidRequestError: There are too many, or one is too long or not printable.
    """
    require_count("request_ids", len(message.request_ids), most=MAX_ABORTED)
    for place, request_id in enumerate(message.request_ids):
        require_name(f"request_ids[{place}]", request_id, most=MAX_INTERNAL_ID)
    return [RequestId(request_id) for request_id in message.request_ids]


def announced_to_pb(batch: Batch) -> pb.AnnounceRequest:
    return pb.AnnounceRequest(
        prompts=[prompt_to_pb(prompt) for prompt in batch.prompts], samples_per_prompt=batch.samples_per_prompt
    )


def announced_from_pb(message: pb.AnnounceRequest) -> Batch:
    """
    Decode an announcement.

    Raises:
        InvalidRequestError: As for a batch.
    """
    return Batch(prompts=_prompts_from_pb(message.prompts), samples_per_prompt=message.samples_per_prompt)


def _prompts_from_pb(messages: Iterable[common.Prompt]) -> list[Prompt]:
    prompts = []
    for index, prompt in enumerate(messages):
        try:
            prompts.append(prompt_from_pb(prompt))
        except InvalidRequestError as error:
            raise at_index(error, index) from None
    return prompts


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


result_to_pb, result_from_pb = pair(UpdateResult, pb.UpdateWeightsResponse, version="policy_version")
info_to_pb, info_from_pb = pair(
    ServerInfo,
    pb.GetServerInfoResponse,
    pause=Parts(
        {"paused": lambda info: info.pause.holds, "pause_left_s": lambda info: info.pause.left_s},
        lambda _, message: Pause(left_s=message.pause_left_s),
    ),
    bubbles=Parts(
        {"bubble_s": lambda info: info.bubbles.total_s, "training_s": lambda info: info.bubbles.training_s},
        lambda _, message: Bubbles(total_s=message.bubble_s, training_s=message.training_s),
    ),
)
_MODES = numbers_of(PauseMode, pb.PauseMode.DESCRIPTOR)


def pause_to_pb(mode: PauseMode, pause: Pause | None = None) -> pb.PauseRequest:
    """Encode a pause, which a gateway sends to its peers with what they agree on."""
    if pause is None:
        return pb.PauseRequest(mode=_MODES[mode])
    return pb.PauseRequest(mode=_MODES[mode], from_peer=True, epoch=pause.epoch, left_s=pause.left_s)


def pause_from_pb(message: pb.PauseRequest) -> PauseMode:
    """
    Raises:
        InvalidRequestError: The mode is not set.
    """
    for mode, value in _MODES.items():
        if message.mode == value:
            return mode
    raise InvalidRequestError(f"mode is {message.mode}; accepted: {', '.join(PauseMode)}", field="mode")
