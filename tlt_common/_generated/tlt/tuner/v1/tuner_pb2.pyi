from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PoolKey(_message.Message):
    __slots__ = ("model", "device", "drafter_version", "fleet")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    DRAFTER_VERSION_FIELD_NUMBER: _ClassVar[int]
    FLEET_FIELD_NUMBER: _ClassVar[int]
    model: str
    device: str
    drafter_version: int
    fleet: str
    def __init__(self, model: _Optional[str] = ..., device: _Optional[str] = ..., drafter_version: _Optional[int] = ..., fleet: _Optional[str] = ...) -> None: ...

class ArmWindow(_message.Message):
    __slots__ = ("arm", "group", "round_count", "accepted_tokens", "produced_tokens", "elapsed_s", "median_reward", "drafted_tokens")
    ARM_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    ROUND_COUNT_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    PRODUCED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    ELAPSED_S_FIELD_NUMBER: _ClassVar[int]
    MEDIAN_REWARD_FIELD_NUMBER: _ClassVar[int]
    DRAFTED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    arm: str
    group: int
    round_count: int
    accepted_tokens: int
    produced_tokens: int
    elapsed_s: float
    median_reward: float
    drafted_tokens: int
    def __init__(self, arm: _Optional[str] = ..., group: _Optional[int] = ..., round_count: _Optional[int] = ..., accepted_tokens: _Optional[int] = ..., produced_tokens: _Optional[int] = ..., elapsed_s: _Optional[float] = ..., median_reward: _Optional[float] = ..., drafted_tokens: _Optional[int] = ...) -> None: ...

class ReportWindowRequest(_message.Message):
    __slots__ = ("worker_id", "key", "arms")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    ARMS_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    key: PoolKey
    arms: _containers.RepeatedCompositeFieldContainer[ArmWindow]
    def __init__(self, worker_id: _Optional[str] = ..., key: _Optional[_Union[PoolKey, _Mapping]] = ..., arms: _Optional[_Iterable[_Union[ArmWindow, _Mapping]]] = ...) -> None: ...

class ReportWindowResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class WatchPosteriorRequest(_message.Message):
    __slots__ = ("key",)
    KEY_FIELD_NUMBER: _ClassVar[int]
    key: PoolKey
    def __init__(self, key: _Optional[_Union[PoolKey, _Mapping]] = ...) -> None: ...

class WatchPosteriorResponse(_message.Message):
    __slots__ = ("drafter_version", "arms")
    DRAFTER_VERSION_FIELD_NUMBER: _ClassVar[int]
    ARMS_FIELD_NUMBER: _ClassVar[int]
    drafter_version: int
    arms: _containers.RepeatedCompositeFieldContainer[ArmWindow]
    def __init__(self, drafter_version: _Optional[int] = ..., arms: _Optional[_Iterable[_Union[ArmWindow, _Mapping]]] = ...) -> None: ...
