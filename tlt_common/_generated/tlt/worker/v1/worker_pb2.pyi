from tlt_common._generated.tlt.common.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GenerateManyRequest(_message.Message):
    __slots__ = ("start", "hang_up")
    START_FIELD_NUMBER: _ClassVar[int]
    HANG_UP_FIELD_NUMBER: _ClassVar[int]
    start: Start
    hang_up: str
    def __init__(self, start: _Optional[_Union[Start, _Mapping]] = ..., hang_up: _Optional[str] = ...) -> None: ...

class Start(_message.Message):
    __slots__ = ("prompt", "traceparent", "owner", "cache_key", "keep_key")
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    CACHE_KEY_FIELD_NUMBER: _ClassVar[int]
    KEEP_KEY_FIELD_NUMBER: _ClassVar[int]
    prompt: _common_pb2.Prompt
    traceparent: str
    owner: str
    cache_key: str
    keep_key: str
    def __init__(self, prompt: _Optional[_Union[_common_pb2.Prompt, _Mapping]] = ..., traceparent: _Optional[str] = ..., owner: _Optional[str] = ..., cache_key: _Optional[str] = ..., keep_key: _Optional[str] = ...) -> None: ...

class GenerateManyResponse(_message.Message):
    __slots__ = ("chunks", "failures")
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    chunks: _containers.RepeatedCompositeFieldContainer[_common_pb2.TokenChunk]
    failures: _containers.RepeatedCompositeFieldContainer[Failure]
    def __init__(self, chunks: _Optional[_Iterable[_Union[_common_pb2.TokenChunk, _Mapping]]] = ..., failures: _Optional[_Iterable[_Union[Failure, _Mapping]]] = ...) -> None: ...

class Failure(_message.Message):
    __slots__ = ("request_id", "reason", "message", "field")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    FIELD_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    reason: str
    message: str
    field: str
    def __init__(self, request_id: _Optional[str] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ..., field: _Optional[str] = ...) -> None: ...

class AbortRequest(_message.Message):
    __slots__ = ("request_ids", "owner")
    REQUEST_IDS_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    request_ids: _containers.RepeatedScalarFieldContainer[str]
    owner: str
    def __init__(self, request_ids: _Optional[_Iterable[str]] = ..., owner: _Optional[str] = ...) -> None: ...

class AbortResponse(_message.Message):
    __slots__ = ("aborted_count", "request_ids")
    ABORTED_COUNT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_IDS_FIELD_NUMBER: _ClassVar[int]
    aborted_count: int
    request_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, aborted_count: _Optional[int] = ..., request_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class AnnounceRequest(_message.Message):
    __slots__ = ("owner", "responses", "samples_per_prompt")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    RESPONSES_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_PER_PROMPT_FIELD_NUMBER: _ClassVar[int]
    owner: str
    responses: _containers.RepeatedCompositeFieldContainer[Start]
    samples_per_prompt: int
    def __init__(self, owner: _Optional[str] = ..., responses: _Optional[_Iterable[_Union[Start, _Mapping]]] = ..., samples_per_prompt: _Optional[int] = ...) -> None: ...

class AnnounceResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReleaseMemoryRequest(_message.Message):
    __slots__ = ("tags", "limit_s")
    TAGS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_S_FIELD_NUMBER: _ClassVar[int]
    tags: _containers.RepeatedScalarFieldContainer[str]
    limit_s: float
    def __init__(self, tags: _Optional[_Iterable[str]] = ..., limit_s: _Optional[float] = ...) -> None: ...

class ReleaseMemoryResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ResumeMemoryRequest(_message.Message):
    __slots__ = ("tags",)
    TAGS_FIELD_NUMBER: _ClassVar[int]
    tags: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, tags: _Optional[_Iterable[str]] = ...) -> None: ...

class ResumeMemoryResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TakeKeptRequest(_message.Message):
    __slots__ = ("key",)
    KEY_FIELD_NUMBER: _ClassVar[int]
    key: str
    def __init__(self, key: _Optional[str] = ...) -> None: ...

class TakeKeptResponse(_message.Message):
    __slots__ = ("chunk",)
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    chunk: _common_pb2.TokenChunk
    def __init__(self, chunk: _Optional[_Union[_common_pb2.TokenChunk, _Mapping]] = ...) -> None: ...

class StageWeightsRequest(_message.Message):
    __slots__ = ("header", "tensor")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    TENSOR_FIELD_NUMBER: _ClassVar[int]
    header: StageWeightsHeader
    tensor: _common_pb2.TensorChunk
    def __init__(self, header: _Optional[_Union[StageWeightsHeader, _Mapping]] = ..., tensor: _Optional[_Union[_common_pb2.TensorChunk, _Mapping]] = ...) -> None: ...

class StageWeightsHeader(_message.Message):
    __slots__ = ("policy_version", "source", "release", "peers", "joining", "base", "adapter_base", "adapter_name")
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    PEERS_FIELD_NUMBER: _ClassVar[int]
    JOINING_FIELD_NUMBER: _ClassVar[int]
    BASE_FIELD_NUMBER: _ClassVar[int]
    ADAPTER_BASE_FIELD_NUMBER: _ClassVar[int]
    ADAPTER_NAME_FIELD_NUMBER: _ClassVar[int]
    policy_version: int
    source: _common_pb2.WeightsSource
    release: _common_pb2.ReleaseId
    peers: _containers.RepeatedScalarFieldContainer[str]
    joining: bool
    base: _common_pb2.ReleaseId
    adapter_base: _common_pb2.ReleaseId
    adapter_name: str
    def __init__(self, policy_version: _Optional[int] = ..., source: _Optional[_Union[_common_pb2.WeightsSource, _Mapping]] = ..., release: _Optional[_Union[_common_pb2.ReleaseId, _Mapping]] = ..., peers: _Optional[_Iterable[str]] = ..., joining: _Optional[bool] = ..., base: _Optional[_Union[_common_pb2.ReleaseId, _Mapping]] = ..., adapter_base: _Optional[_Union[_common_pb2.ReleaseId, _Mapping]] = ..., adapter_name: _Optional[str] = ...) -> None: ...

class StageWeightsResponse(_message.Message):
    __slots__ = ("staged_bytes", "digest")
    STAGED_BYTES_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    staged_bytes: int
    digest: str
    def __init__(self, staged_bytes: _Optional[int] = ..., digest: _Optional[str] = ...) -> None: ...

class FetchWeightsRequest(_message.Message):
    __slots__ = ("release", "from_piece")
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    FROM_PIECE_FIELD_NUMBER: _ClassVar[int]
    release: _common_pb2.ReleaseId
    from_piece: int
    def __init__(self, release: _Optional[_Union[_common_pb2.ReleaseId, _Mapping]] = ..., from_piece: _Optional[int] = ...) -> None: ...

class FetchWeightsResponse(_message.Message):
    __slots__ = ("tensor", "end")
    TENSOR_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    tensor: _common_pb2.TensorChunk
    end: FetchWeightsEnd
    def __init__(self, tensor: _Optional[_Union[_common_pb2.TensorChunk, _Mapping]] = ..., end: _Optional[_Union[FetchWeightsEnd, _Mapping]] = ...) -> None: ...

class FetchWeightsEnd(_message.Message):
    __slots__ = ("piece_count",)
    PIECE_COUNT_FIELD_NUMBER: _ClassVar[int]
    piece_count: int
    def __init__(self, piece_count: _Optional[int] = ...) -> None: ...

class FoldWeightsRequest(_message.Message):
    __slots__ = ("header", "tensor")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    TENSOR_FIELD_NUMBER: _ClassVar[int]
    header: FoldWeightsHeader
    tensor: _common_pb2.TensorChunk
    def __init__(self, header: _Optional[_Union[FoldWeightsHeader, _Mapping]] = ..., tensor: _Optional[_Union[_common_pb2.TensorChunk, _Mapping]] = ...) -> None: ...

class FoldWeightsHeader(_message.Message):
    __slots__ = ("base", "source")
    BASE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    base: _common_pb2.ReleaseId
    source: _common_pb2.WeightsSource
    def __init__(self, base: _Optional[_Union[_common_pb2.ReleaseId, _Mapping]] = ..., source: _Optional[_Union[_common_pb2.WeightsSource, _Mapping]] = ...) -> None: ...

class FoldWeightsResponse(_message.Message):
    __slots__ = ("tensor",)
    TENSOR_FIELD_NUMBER: _ClassVar[int]
    tensor: _common_pb2.TensorChunk
    def __init__(self, tensor: _Optional[_Union[_common_pb2.TensorChunk, _Mapping]] = ...) -> None: ...

class CommitWeightsRequest(_message.Message):
    __slots__ = ("policy_version", "release")
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    policy_version: int
    release: _common_pb2.ReleaseId
    def __init__(self, policy_version: _Optional[int] = ..., release: _Optional[_Union[_common_pb2.ReleaseId, _Mapping]] = ...) -> None: ...

class CommitWeightsResponse(_message.Message):
    __slots__ = ("pause_s",)
    PAUSE_S_FIELD_NUMBER: _ClassVar[int]
    pause_s: float
    def __init__(self, pause_s: _Optional[float] = ...) -> None: ...

class DiscardWeightsRequest(_message.Message):
    __slots__ = ("policy_version", "release")
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    policy_version: int
    release: _common_pb2.ReleaseId
    def __init__(self, policy_version: _Optional[int] = ..., release: _Optional[_Union[_common_pb2.ReleaseId, _Mapping]] = ...) -> None: ...

class DiscardWeightsResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ProcessGroup(_message.Message):
    __slots__ = ("name", "backend", "master_address", "master_port", "rank", "world_size")
    NAME_FIELD_NUMBER: _ClassVar[int]
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    MASTER_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    MASTER_PORT_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    WORLD_SIZE_FIELD_NUMBER: _ClassVar[int]
    name: str
    backend: str
    master_address: str
    master_port: int
    rank: int
    world_size: int
    def __init__(self, name: _Optional[str] = ..., backend: _Optional[str] = ..., master_address: _Optional[str] = ..., master_port: _Optional[int] = ..., rank: _Optional[int] = ..., world_size: _Optional[int] = ...) -> None: ...

class JoinGroupRequest(_message.Message):
    __slots__ = ("group",)
    GROUP_FIELD_NUMBER: _ClassVar[int]
    group: ProcessGroup
    def __init__(self, group: _Optional[_Union[ProcessGroup, _Mapping]] = ...) -> None: ...

class JoinGroupResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LeaveGroupRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class LeaveGroupResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TensorForm(_message.Message):
    __slots__ = ("name", "dtype", "shape")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    name: str
    dtype: str
    shape: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, name: _Optional[str] = ..., dtype: _Optional[str] = ..., shape: _Optional[_Iterable[int]] = ...) -> None: ...

class ReceiveTensorsRequest(_message.Message):
    __slots__ = ("group", "tensors", "flat")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    FLAT_FIELD_NUMBER: _ClassVar[int]
    group: str
    tensors: _containers.RepeatedCompositeFieldContainer[TensorForm]
    flat: bool
    def __init__(self, group: _Optional[str] = ..., tensors: _Optional[_Iterable[_Union[TensorForm, _Mapping]]] = ..., flat: _Optional[bool] = ...) -> None: ...

class ReceiveTensorsResponse(_message.Message):
    __slots__ = ("collected",)
    COLLECTED_FIELD_NUMBER: _ClassVar[int]
    collected: Collected
    def __init__(self, collected: _Optional[_Union[Collected, _Mapping]] = ...) -> None: ...

class ChangesPart(_message.Message):
    __slots__ = ("base_version", "number")
    BASE_VERSION_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    base_version: int
    number: int
    def __init__(self, base_version: _Optional[int] = ..., number: _Optional[int] = ...) -> None: ...

class CollectTensorsRequest(_message.Message):
    __slots__ = ("piece", "part")
    PIECE_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    piece: bytes
    part: ChangesPart
    def __init__(self, piece: _Optional[bytes] = ..., part: _Optional[_Union[ChangesPart, _Mapping]] = ...) -> None: ...

class CollectTensorsResponse(_message.Message):
    __slots__ = ("collected",)
    COLLECTED_FIELD_NUMBER: _ClassVar[int]
    collected: Collected
    def __init__(self, collected: _Optional[_Union[Collected, _Mapping]] = ...) -> None: ...

class Collected(_message.Message):
    __slots__ = ("tensor_count", "missing_count", "first_missing", "part_count")
    TENSOR_COUNT_FIELD_NUMBER: _ClassVar[int]
    MISSING_COUNT_FIELD_NUMBER: _ClassVar[int]
    FIRST_MISSING_FIELD_NUMBER: _ClassVar[int]
    PART_COUNT_FIELD_NUMBER: _ClassVar[int]
    tensor_count: int
    missing_count: int
    first_missing: str
    part_count: int
    def __init__(self, tensor_count: _Optional[int] = ..., missing_count: _Optional[int] = ..., first_missing: _Optional[str] = ..., part_count: _Optional[int] = ...) -> None: ...

class FetchCollectedRequest(_message.Message):
    __slots__ = ("next",)
    NEXT_FIELD_NUMBER: _ClassVar[int]
    next: ChangesPart
    def __init__(self, next: _Optional[_Union[ChangesPart, _Mapping]] = ...) -> None: ...

class FetchCollectedResponse(_message.Message):
    __slots__ = ("tensor",)
    TENSOR_FIELD_NUMBER: _ClassVar[int]
    tensor: _common_pb2.TensorChunk
    def __init__(self, tensor: _Optional[_Union[_common_pb2.TensorChunk, _Mapping]] = ...) -> None: ...

class DropCollectedRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DropCollectedResponse(_message.Message):
    __slots__ = ("collected",)
    COLLECTED_FIELD_NUMBER: _ClassVar[int]
    collected: Collected
    def __init__(self, collected: _Optional[_Union[Collected, _Mapping]] = ...) -> None: ...

class ReadAdapterRequest(_message.Message):
    __slots__ = ("source", "piece")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    PIECE_FIELD_NUMBER: _ClassVar[int]
    source: _common_pb2.WeightsSource
    piece: bytes
    def __init__(self, source: _Optional[_Union[_common_pb2.WeightsSource, _Mapping]] = ..., piece: _Optional[bytes] = ...) -> None: ...

class ReadAdapterResponse(_message.Message):
    __slots__ = ("tensor",)
    TENSOR_FIELD_NUMBER: _ClassVar[int]
    tensor: _common_pb2.TensorChunk
    def __init__(self, tensor: _Optional[_Union[_common_pb2.TensorChunk, _Mapping]] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ("gateway_id", "demand_count", "serial", "pause")
    GATEWAY_ID_FIELD_NUMBER: _ClassVar[int]
    DEMAND_COUNT_FIELD_NUMBER: _ClassVar[int]
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    PAUSE_FIELD_NUMBER: _ClassVar[int]
    gateway_id: str
    demand_count: int
    serial: int
    pause: Pause
    def __init__(self, gateway_id: _Optional[str] = ..., demand_count: _Optional[int] = ..., serial: _Optional[int] = ..., pause: _Optional[_Union[Pause, _Mapping]] = ...) -> None: ...

class Pause(_message.Message):
    __slots__ = ("epoch", "left_s")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    LEFT_S_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    left_s: float
    def __init__(self, epoch: _Optional[int] = ..., left_s: _Optional[float] = ...) -> None: ...

class WatchResponse(_message.Message):
    __slots__ = ("info", "slot_count", "serial", "pause", "kept_keys", "rounds")
    INFO_FIELD_NUMBER: _ClassVar[int]
    SLOT_COUNT_FIELD_NUMBER: _ClassVar[int]
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    PAUSE_FIELD_NUMBER: _ClassVar[int]
    KEPT_KEYS_FIELD_NUMBER: _ClassVar[int]
    ROUNDS_FIELD_NUMBER: _ClassVar[int]
    info: WorkerInfo
    slot_count: int
    serial: int
    pause: Pause
    kept_keys: _containers.RepeatedScalarFieldContainer[str]
    rounds: WorkedRounds
    def __init__(self, info: _Optional[_Union[WorkerInfo, _Mapping]] = ..., slot_count: _Optional[int] = ..., serial: _Optional[int] = ..., pause: _Optional[_Union[Pause, _Mapping]] = ..., kept_keys: _Optional[_Iterable[str]] = ..., rounds: _Optional[_Union[WorkedRounds, _Mapping]] = ...) -> None: ...

class WorkedRounds(_message.Message):
    __slots__ = ("serial", "arms", "prefilled_tokens", "prefill_s")
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    ARMS_FIELD_NUMBER: _ClassVar[int]
    PREFILLED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    PREFILL_S_FIELD_NUMBER: _ClassVar[int]
    serial: int
    arms: _containers.RepeatedCompositeFieldContainer[ArmRounds]
    prefilled_tokens: int
    prefill_s: float
    def __init__(self, serial: _Optional[int] = ..., arms: _Optional[_Iterable[_Union[ArmRounds, _Mapping]]] = ..., prefilled_tokens: _Optional[int] = ..., prefill_s: _Optional[float] = ...) -> None: ...

class ArmRounds(_message.Message):
    __slots__ = ("arm", "group", "round_count", "accepted_tokens", "produced_tokens", "kv_tokens", "elapsed_s")
    ARM_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    ROUND_COUNT_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    PRODUCED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    KV_TOKENS_FIELD_NUMBER: _ClassVar[int]
    ELAPSED_S_FIELD_NUMBER: _ClassVar[int]
    arm: str
    group: int
    round_count: int
    accepted_tokens: int
    produced_tokens: int
    kv_tokens: int
    elapsed_s: float
    def __init__(self, arm: _Optional[str] = ..., group: _Optional[int] = ..., round_count: _Optional[int] = ..., accepted_tokens: _Optional[int] = ..., produced_tokens: _Optional[int] = ..., kv_tokens: _Optional[int] = ..., elapsed_s: _Optional[float] = ...) -> None: ...

class WorkerInfo(_message.Message):
    __slots__ = ("worker_id", "model", "vocab_size", "context_length", "max_running", "policy_version", "drafter_version", "running_count", "device", "draining", "training", "release", "source", "adapter_base", "adapter_name", "receiving", "finds_stop_strings", "returns_routed_experts", "kv_tokens", "releasable", "released", "released_tags", "release_left_s")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    VOCAB_SIZE_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_LENGTH_FIELD_NUMBER: _ClassVar[int]
    MAX_RUNNING_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    DRAFTER_VERSION_FIELD_NUMBER: _ClassVar[int]
    RUNNING_COUNT_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    TRAINING_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    ADAPTER_BASE_FIELD_NUMBER: _ClassVar[int]
    ADAPTER_NAME_FIELD_NUMBER: _ClassVar[int]
    RECEIVING_FIELD_NUMBER: _ClassVar[int]
    FINDS_STOP_STRINGS_FIELD_NUMBER: _ClassVar[int]
    RETURNS_ROUTED_EXPERTS_FIELD_NUMBER: _ClassVar[int]
    KV_TOKENS_FIELD_NUMBER: _ClassVar[int]
    RELEASABLE_FIELD_NUMBER: _ClassVar[int]
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    RELEASED_TAGS_FIELD_NUMBER: _ClassVar[int]
    RELEASE_LEFT_S_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    model: str
    vocab_size: int
    context_length: int
    max_running: int
    policy_version: int
    drafter_version: int
    running_count: int
    device: str
    draining: bool
    training: bool
    release: _common_pb2.ReleaseId
    source: _common_pb2.WeightsSource
    adapter_base: _common_pb2.ReleaseId
    adapter_name: str
    receiving: bool
    finds_stop_strings: bool
    returns_routed_experts: bool
    kv_tokens: int
    releasable: bool
    released: bool
    released_tags: _containers.RepeatedScalarFieldContainer[str]
    release_left_s: float
    def __init__(self, worker_id: _Optional[str] = ..., model: _Optional[str] = ..., vocab_size: _Optional[int] = ..., context_length: _Optional[int] = ..., max_running: _Optional[int] = ..., policy_version: _Optional[int] = ..., drafter_version: _Optional[int] = ..., running_count: _Optional[int] = ..., device: _Optional[str] = ..., draining: _Optional[bool] = ..., training: _Optional[bool] = ..., release: _Optional[_Union[_common_pb2.ReleaseId, _Mapping]] = ..., source: _Optional[_Union[_common_pb2.WeightsSource, _Mapping]] = ..., adapter_base: _Optional[_Union[_common_pb2.ReleaseId, _Mapping]] = ..., adapter_name: _Optional[str] = ..., receiving: _Optional[bool] = ..., finds_stop_strings: _Optional[bool] = ..., returns_routed_experts: _Optional[bool] = ..., kv_tokens: _Optional[int] = ..., releasable: _Optional[bool] = ..., released: _Optional[bool] = ..., released_tags: _Optional[_Iterable[str]] = ..., release_left_s: _Optional[float] = ...) -> None: ...
