from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class PutRequest(_message.Message):
    __slots__ = ("frame",)
    FRAME_FIELD_NUMBER: _ClassVar[int]
    frame: bytes
    def __init__(self, frame: _Optional[bytes] = ...) -> None: ...

class PutResponse(_message.Message):
    __slots__ = ("kept_count", "dropped_count", "refused_count", "refused_reason")
    KEPT_COUNT_FIELD_NUMBER: _ClassVar[int]
    DROPPED_COUNT_FIELD_NUMBER: _ClassVar[int]
    REFUSED_COUNT_FIELD_NUMBER: _ClassVar[int]
    REFUSED_REASON_FIELD_NUMBER: _ClassVar[int]
    kept_count: int
    dropped_count: int
    refused_count: int
    refused_reason: str
    def __init__(self, kept_count: _Optional[int] = ..., dropped_count: _Optional[int] = ..., refused_count: _Optional[int] = ..., refused_reason: _Optional[str] = ...) -> None: ...

class TakeRequest(_message.Message):
    __slots__ = ("max_tokens", "seed", "min_policy_version", "newer_than", "newer_than_by_shard")
    class NewerThanByShardEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    MIN_POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    NEWER_THAN_FIELD_NUMBER: _ClassVar[int]
    NEWER_THAN_BY_SHARD_FIELD_NUMBER: _ClassVar[int]
    max_tokens: int
    seed: int
    min_policy_version: int
    newer_than: int
    newer_than_by_shard: _containers.ScalarMap[int, int]
    def __init__(self, max_tokens: _Optional[int] = ..., seed: _Optional[int] = ..., min_policy_version: _Optional[int] = ..., newer_than: _Optional[int] = ..., newer_than_by_shard: _Optional[_Mapping[int, int]] = ...) -> None: ...

class TakeResponse(_message.Message):
    __slots__ = ("frame", "cursor", "shard")
    FRAME_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    frame: bytes
    cursor: int
    shard: int
    def __init__(self, frame: _Optional[bytes] = ..., cursor: _Optional[int] = ..., shard: _Optional[int] = ...) -> None: ...

class WatchPolicyRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class WatchPolicyResponse(_message.Message):
    __slots__ = ("enabled", "sample_ratio", "frame_tokens", "state_bits")
    ENABLED_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_RATIO_FIELD_NUMBER: _ClassVar[int]
    FRAME_TOKENS_FIELD_NUMBER: _ClassVar[int]
    STATE_BITS_FIELD_NUMBER: _ClassVar[int]
    enabled: bool
    sample_ratio: float
    frame_tokens: int
    state_bits: int
    def __init__(self, enabled: _Optional[bool] = ..., sample_ratio: _Optional[float] = ..., frame_tokens: _Optional[int] = ..., state_bits: _Optional[int] = ...) -> None: ...

class GetUsageRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetUsageResponse(_message.Message):
    __slots__ = ("frame_count", "token_count", "used_bytes", "budget_bytes", "evicted_count")
    FRAME_COUNT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    USED_BYTES_FIELD_NUMBER: _ClassVar[int]
    BUDGET_BYTES_FIELD_NUMBER: _ClassVar[int]
    EVICTED_COUNT_FIELD_NUMBER: _ClassVar[int]
    frame_count: int
    token_count: int
    used_bytes: int
    budget_bytes: int
    evicted_count: int
    def __init__(self, frame_count: _Optional[int] = ..., token_count: _Optional[int] = ..., used_bytes: _Optional[int] = ..., budget_bytes: _Optional[int] = ..., evicted_count: _Optional[int] = ...) -> None: ...
