from tlt_common._generated.tlt.common.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PauseMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PAUSE_MODE_UNSPECIFIED: _ClassVar[PauseMode]
    PAUSE_MODE_ABORT: _ClassVar[PauseMode]
    PAUSE_MODE_KEEP: _ClassVar[PauseMode]
    PAUSE_MODE_WAIT: _ClassVar[PauseMode]
PAUSE_MODE_UNSPECIFIED: PauseMode
PAUSE_MODE_ABORT: PauseMode
PAUSE_MODE_KEEP: PauseMode
PAUSE_MODE_WAIT: PauseMode

class GenerateRequest(_message.Message):
    __slots__ = ("prompt",)
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    prompt: _common_pb2.Prompt
    def __init__(self, prompt: _Optional[_Union[_common_pb2.Prompt, _Mapping]] = ...) -> None: ...

class GenerateResponse(_message.Message):
    __slots__ = ("chunk",)
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    chunk: _common_pb2.TokenChunk
    def __init__(self, chunk: _Optional[_Union[_common_pb2.TokenChunk, _Mapping]] = ...) -> None: ...

class GenerateBatchRequest(_message.Message):
    __slots__ = ("prompts", "samples_per_prompt", "stream_tokens", "samples")
    PROMPTS_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_PER_PROMPT_FIELD_NUMBER: _ClassVar[int]
    STREAM_TOKENS_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    prompts: _containers.RepeatedCompositeFieldContainer[_common_pb2.Prompt]
    samples_per_prompt: int
    stream_tokens: bool
    samples: _containers.RepeatedCompositeFieldContainer[SampleStart]
    def __init__(self, prompts: _Optional[_Iterable[_Union[_common_pb2.Prompt, _Mapping]]] = ..., samples_per_prompt: _Optional[int] = ..., stream_tokens: _Optional[bool] = ..., samples: _Optional[_Iterable[_Union[SampleStart, _Mapping]]] = ...) -> None: ...

class SampleStart(_message.Message):
    __slots__ = ("prompt_index", "sample_index", "prefix_token_ids", "begun_version")
    PROMPT_INDEX_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_INDEX_FIELD_NUMBER: _ClassVar[int]
    PREFIX_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    BEGUN_VERSION_FIELD_NUMBER: _ClassVar[int]
    prompt_index: int
    sample_index: int
    prefix_token_ids: _containers.RepeatedScalarFieldContainer[int]
    begun_version: int
    def __init__(self, prompt_index: _Optional[int] = ..., sample_index: _Optional[int] = ..., prefix_token_ids: _Optional[_Iterable[int]] = ..., begun_version: _Optional[int] = ...) -> None: ...

class GenerateBatchResponse(_message.Message):
    __slots__ = ("prompt_index", "sample_index", "response", "finished_count", "total_count", "elapsed_s")
    PROMPT_INDEX_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_INDEX_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    FINISHED_COUNT_FIELD_NUMBER: _ClassVar[int]
    TOTAL_COUNT_FIELD_NUMBER: _ClassVar[int]
    ELAPSED_S_FIELD_NUMBER: _ClassVar[int]
    prompt_index: int
    sample_index: int
    response: _common_pb2.TokenChunk
    finished_count: int
    total_count: int
    elapsed_s: float
    def __init__(self, prompt_index: _Optional[int] = ..., sample_index: _Optional[int] = ..., response: _Optional[_Union[_common_pb2.TokenChunk, _Mapping]] = ..., finished_count: _Optional[int] = ..., total_count: _Optional[int] = ..., elapsed_s: _Optional[float] = ...) -> None: ...

class AnnounceRequest(_message.Message):
    __slots__ = ("prompts", "samples_per_prompt")
    PROMPTS_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_PER_PROMPT_FIELD_NUMBER: _ClassVar[int]
    prompts: _containers.RepeatedCompositeFieldContainer[_common_pb2.Prompt]
    samples_per_prompt: int
    def __init__(self, prompts: _Optional[_Iterable[_Union[_common_pb2.Prompt, _Mapping]]] = ..., samples_per_prompt: _Optional[int] = ...) -> None: ...

class AnnounceResponse(_message.Message):
    __slots__ = ("worker_count",)
    WORKER_COUNT_FIELD_NUMBER: _ClassVar[int]
    worker_count: int
    def __init__(self, worker_count: _Optional[int] = ...) -> None: ...

class AbortRequest(_message.Message):
    __slots__ = ("request_ids", "all", "from_peer")
    REQUEST_IDS_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    FROM_PEER_FIELD_NUMBER: _ClassVar[int]
    request_ids: _containers.RepeatedScalarFieldContainer[str]
    all: bool
    from_peer: bool
    def __init__(self, request_ids: _Optional[_Iterable[str]] = ..., all: _Optional[bool] = ..., from_peer: _Optional[bool] = ...) -> None: ...

class AbortResponse(_message.Message):
    __slots__ = ("aborted_count", "request_ids")
    ABORTED_COUNT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_IDS_FIELD_NUMBER: _ClassVar[int]
    aborted_count: int
    request_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, aborted_count: _Optional[int] = ..., request_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class PauseRequest(_message.Message):
    __slots__ = ("mode", "from_peer", "epoch", "left_s")
    MODE_FIELD_NUMBER: _ClassVar[int]
    FROM_PEER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    LEFT_S_FIELD_NUMBER: _ClassVar[int]
    mode: PauseMode
    from_peer: bool
    epoch: int
    left_s: float
    def __init__(self, mode: _Optional[_Union[PauseMode, str]] = ..., from_peer: _Optional[bool] = ..., epoch: _Optional[int] = ..., left_s: _Optional[float] = ...) -> None: ...

class PauseResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ProceedRequest(_message.Message):
    __slots__ = ("from_peer", "epoch")
    FROM_PEER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    from_peer: bool
    epoch: int
    def __init__(self, from_peer: _Optional[bool] = ..., epoch: _Optional[int] = ...) -> None: ...

class ProceedResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class UpdateWeightsRequest(_message.Message):
    __slots__ = ("header", "tensor")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    TENSOR_FIELD_NUMBER: _ClassVar[int]
    header: UpdateWeightsHeader
    tensor: _common_pb2.TensorChunk
    def __init__(self, header: _Optional[_Union[UpdateWeightsHeader, _Mapping]] = ..., tensor: _Optional[_Union[_common_pb2.TensorChunk, _Mapping]] = ...) -> None: ...

class UpdateWeightsHeader(_message.Message):
    __slots__ = ("policy_version", "source", "key", "size_bytes", "base_version", "adapter_base")
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    BASE_VERSION_FIELD_NUMBER: _ClassVar[int]
    ADAPTER_BASE_FIELD_NUMBER: _ClassVar[int]
    policy_version: int
    source: _common_pb2.WeightsSource
    key: str
    size_bytes: int
    base_version: int
    adapter_base: str
    def __init__(self, policy_version: _Optional[int] = ..., source: _Optional[_Union[_common_pb2.WeightsSource, _Mapping]] = ..., key: _Optional[str] = ..., size_bytes: _Optional[int] = ..., base_version: _Optional[int] = ..., adapter_base: _Optional[str] = ...) -> None: ...

class UpdateWeightsResponse(_message.Message):
    __slots__ = ("policy_version", "worker_count", "elapsed_s", "digest")
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    WORKER_COUNT_FIELD_NUMBER: _ClassVar[int]
    ELAPSED_S_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    policy_version: int
    worker_count: int
    elapsed_s: float
    digest: str
    def __init__(self, policy_version: _Optional[int] = ..., worker_count: _Optional[int] = ..., elapsed_s: _Optional[float] = ..., digest: _Optional[str] = ...) -> None: ...

class ReleaseMemoryRequest(_message.Message):
    __slots__ = ("tags", "limit_s")
    TAGS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_S_FIELD_NUMBER: _ClassVar[int]
    tags: _containers.RepeatedScalarFieldContainer[str]
    limit_s: float
    def __init__(self, tags: _Optional[_Iterable[str]] = ..., limit_s: _Optional[float] = ...) -> None: ...

class ReleaseMemoryResponse(_message.Message):
    __slots__ = ("worker_count",)
    WORKER_COUNT_FIELD_NUMBER: _ClassVar[int]
    worker_count: int
    def __init__(self, worker_count: _Optional[int] = ...) -> None: ...

class ResumeMemoryRequest(_message.Message):
    __slots__ = ("tags",)
    TAGS_FIELD_NUMBER: _ClassVar[int]
    tags: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, tags: _Optional[_Iterable[str]] = ...) -> None: ...

class ResumeMemoryResponse(_message.Message):
    __slots__ = ("worker_count",)
    WORKER_COUNT_FIELD_NUMBER: _ClassVar[int]
    worker_count: int
    def __init__(self, worker_count: _Optional[int] = ...) -> None: ...

class GetServerInfoRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetServerInfoResponse(_message.Message):
    __slots__ = ("model", "vocab_size", "context_length", "policy_version", "drafter_version", "worker_count", "queued_count", "running_count", "server_version", "paused", "pause_left_s", "bubble_s", "training_s", "released")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    VOCAB_SIZE_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_LENGTH_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    DRAFTER_VERSION_FIELD_NUMBER: _ClassVar[int]
    WORKER_COUNT_FIELD_NUMBER: _ClassVar[int]
    QUEUED_COUNT_FIELD_NUMBER: _ClassVar[int]
    RUNNING_COUNT_FIELD_NUMBER: _ClassVar[int]
    SERVER_VERSION_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    PAUSE_LEFT_S_FIELD_NUMBER: _ClassVar[int]
    BUBBLE_S_FIELD_NUMBER: _ClassVar[int]
    TRAINING_S_FIELD_NUMBER: _ClassVar[int]
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    model: str
    vocab_size: int
    context_length: int
    policy_version: int
    drafter_version: int
    worker_count: int
    queued_count: int
    running_count: int
    server_version: str
    paused: bool
    pause_left_s: float
    bubble_s: float
    training_s: float
    released: bool
    def __init__(self, model: _Optional[str] = ..., vocab_size: _Optional[int] = ..., context_length: _Optional[int] = ..., policy_version: _Optional[int] = ..., drafter_version: _Optional[int] = ..., worker_count: _Optional[int] = ..., queued_count: _Optional[int] = ..., running_count: _Optional[int] = ..., server_version: _Optional[str] = ..., paused: _Optional[bool] = ..., pause_left_s: _Optional[float] = ..., bubble_s: _Optional[float] = ..., training_s: _Optional[float] = ..., released: _Optional[bool] = ...) -> None: ...
