from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StartRequest(_message.Message):
    __slots__ = ("epoch", "ttl_s", "policy_uri", "policy_version", "drafter_version", "accept_length")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    TTL_S_FIELD_NUMBER: _ClassVar[int]
    POLICY_URI_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    DRAFTER_VERSION_FIELD_NUMBER: _ClassVar[int]
    ACCEPT_LENGTH_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    ttl_s: float
    policy_uri: str
    policy_version: int
    drafter_version: int
    accept_length: float
    def __init__(self, epoch: _Optional[int] = ..., ttl_s: _Optional[float] = ..., policy_uri: _Optional[str] = ..., policy_version: _Optional[int] = ..., drafter_version: _Optional[int] = ..., accept_length: _Optional[float] = ...) -> None: ...

class StartResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PrepareRequest(_message.Message):
    __slots__ = ("policy_uri", "policy_version")
    POLICY_URI_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    policy_uri: str
    policy_version: int
    def __init__(self, policy_uri: _Optional[str] = ..., policy_version: _Optional[int] = ...) -> None: ...

class PrepareResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PreemptRequest(_message.Message):
    __slots__ = ("epoch",)
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    def __init__(self, epoch: _Optional[int] = ...) -> None: ...

class PreemptResponse(_message.Message):
    __slots__ = ("progress",)
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    progress: Progress
    def __init__(self, progress: _Optional[_Union[Progress, _Mapping]] = ...) -> None: ...

class GetProgressRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetProgressResponse(_message.Message):
    __slots__ = ("progress",)
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    progress: Progress
    def __init__(self, progress: _Optional[_Union[Progress, _Mapping]] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("training", "step_count", "token_count", "training_s", "loss", "held_out_top1", "drafter_version", "policy_version", "resting", "problem", "gain", "passes")
    TRAINING_FIELD_NUMBER: _ClassVar[int]
    STEP_COUNT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    TRAINING_S_FIELD_NUMBER: _ClassVar[int]
    LOSS_FIELD_NUMBER: _ClassVar[int]
    HELD_OUT_TOP1_FIELD_NUMBER: _ClassVar[int]
    DRAFTER_VERSION_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    RESTING_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    GAIN_FIELD_NUMBER: _ClassVar[int]
    PASSES_FIELD_NUMBER: _ClassVar[int]
    training: bool
    step_count: int
    token_count: int
    training_s: float
    loss: float
    held_out_top1: float
    drafter_version: int
    policy_version: int
    resting: bool
    problem: str
    gain: float
    passes: float
    def __init__(self, training: _Optional[bool] = ..., step_count: _Optional[int] = ..., token_count: _Optional[int] = ..., training_s: _Optional[float] = ..., loss: _Optional[float] = ..., held_out_top1: _Optional[float] = ..., drafter_version: _Optional[int] = ..., policy_version: _Optional[int] = ..., resting: _Optional[bool] = ..., problem: _Optional[str] = ..., gain: _Optional[float] = ..., passes: _Optional[float] = ...) -> None: ...
