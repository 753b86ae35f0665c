from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class WorkerState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WORKER_STATE_UNSPECIFIED: _ClassVar[WorkerState]
    WORKER_STATE_ROLLOUT: _ClassVar[WorkerState]
    WORKER_STATE_TRAINING: _ClassVar[WorkerState]
    WORKER_STATE_SWITCHING: _ClassVar[WorkerState]
    WORKER_STATE_UPDATING: _ClassVar[WorkerState]
    WORKER_STATE_IDLE: _ClassVar[WorkerState]
    WORKER_STATE_DOWN: _ClassVar[WorkerState]
    WORKER_STATE_STARTING: _ClassVar[WorkerState]
    WORKER_STATE_RESTING: _ClassVar[WorkerState]
    WORKER_STATE_TRAINER: _ClassVar[WorkerState]
WORKER_STATE_UNSPECIFIED: WorkerState
WORKER_STATE_ROLLOUT: WorkerState
WORKER_STATE_TRAINING: WorkerState
WORKER_STATE_SWITCHING: WorkerState
WORKER_STATE_UPDATING: WorkerState
WORKER_STATE_IDLE: WorkerState
WORKER_STATE_DOWN: WorkerState
WORKER_STATE_STARTING: WorkerState
WORKER_STATE_RESTING: WorkerState
WORKER_STATE_TRAINER: WorkerState

class WorkerHello(_message.Message):
    __slots__ = ("worker_id", "address", "model", "device", "max_running", "pod", "accepts_report_interval", "device_count", "training_device_count", "changed_states", "changed_ago_s")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    MAX_RUNNING_FIELD_NUMBER: _ClassVar[int]
    POD_FIELD_NUMBER: _ClassVar[int]
    ACCEPTS_REPORT_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    DEVICE_COUNT_FIELD_NUMBER: _ClassVar[int]
    TRAINING_DEVICE_COUNT_FIELD_NUMBER: _ClassVar[int]
    CHANGED_STATES_FIELD_NUMBER: _ClassVar[int]
    CHANGED_AGO_S_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    address: str
    model: str
    device: str
    max_running: int
    pod: str
    accepts_report_interval: bool
    device_count: int
    training_device_count: int
    changed_states: _containers.RepeatedScalarFieldContainer[WorkerState]
    changed_ago_s: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, worker_id: _Optional[str] = ..., address: _Optional[str] = ..., model: _Optional[str] = ..., device: _Optional[str] = ..., max_running: _Optional[int] = ..., pod: _Optional[str] = ..., accepts_report_interval: _Optional[bool] = ..., device_count: _Optional[int] = ..., training_device_count: _Optional[int] = ..., changed_states: _Optional[_Iterable[_Union[WorkerState, str]]] = ..., changed_ago_s: _Optional[_Iterable[float]] = ...) -> None: ...

class WorkerStatus(_message.Message):
    __slots__ = ("state", "running_count", "policy_version", "drafter_version", "epoch", "accept_length", "produced_tokens", "arm", "training_step_count", "training_loss", "trainer_ready", "lent", "training_s", "training_age_s", "trainer_resting", "problem", "training_gain", "training_passes", "drafter_pause_s", "training_token_count")
    STATE_FIELD_NUMBER: _ClassVar[int]
    RUNNING_COUNT_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    DRAFTER_VERSION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ACCEPT_LENGTH_FIELD_NUMBER: _ClassVar[int]
    PRODUCED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    ARM_FIELD_NUMBER: _ClassVar[int]
    TRAINING_STEP_COUNT_FIELD_NUMBER: _ClassVar[int]
    TRAINING_LOSS_FIELD_NUMBER: _ClassVar[int]
    TRAINER_READY_FIELD_NUMBER: _ClassVar[int]
    LENT_FIELD_NUMBER: _ClassVar[int]
    TRAINING_S_FIELD_NUMBER: _ClassVar[int]
    TRAINING_AGE_S_FIELD_NUMBER: _ClassVar[int]
    TRAINER_RESTING_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    TRAINING_GAIN_FIELD_NUMBER: _ClassVar[int]
    TRAINING_PASSES_FIELD_NUMBER: _ClassVar[int]
    DRAFTER_PAUSE_S_FIELD_NUMBER: _ClassVar[int]
    TRAINING_TOKEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    state: WorkerState
    running_count: int
    policy_version: int
    drafter_version: int
    epoch: int
    accept_length: float
    produced_tokens: int
    arm: str
    training_step_count: int
    training_loss: float
    trainer_ready: bool
    lent: bool
    training_s: float
    training_age_s: float
    trainer_resting: bool
    problem: str
    training_gain: float
    training_passes: float
    drafter_pause_s: float
    training_token_count: int
    def __init__(self, state: _Optional[_Union[WorkerState, str]] = ..., running_count: _Optional[int] = ..., policy_version: _Optional[int] = ..., drafter_version: _Optional[int] = ..., epoch: _Optional[int] = ..., accept_length: _Optional[float] = ..., produced_tokens: _Optional[int] = ..., arm: _Optional[str] = ..., training_step_count: _Optional[int] = ..., training_loss: _Optional[float] = ..., trainer_ready: _Optional[bool] = ..., lent: _Optional[bool] = ..., training_s: _Optional[float] = ..., training_age_s: _Optional[float] = ..., trainer_resting: _Optional[bool] = ..., problem: _Optional[str] = ..., training_gain: _Optional[float] = ..., training_passes: _Optional[float] = ..., drafter_pause_s: _Optional[float] = ..., training_token_count: _Optional[int] = ...) -> None: ...

class HoldLeaseRequest(_message.Message):
    __slots__ = ("hello", "status")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    hello: WorkerHello
    status: WorkerStatus
    def __init__(self, hello: _Optional[_Union[WorkerHello, _Mapping]] = ..., status: _Optional[_Union[WorkerStatus, _Mapping]] = ...) -> None: ...

class HoldLeaseResponse(_message.Message):
    __slots__ = ("grant", "revoke", "drafter", "report_interval")
    GRANT_FIELD_NUMBER: _ClassVar[int]
    REVOKE_FIELD_NUMBER: _ClassVar[int]
    DRAFTER_FIELD_NUMBER: _ClassVar[int]
    REPORT_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    grant: GrantLease
    revoke: RevokeLease
    drafter: DrafterWish
    report_interval: ReportInterval
    def __init__(self, grant: _Optional[_Union[GrantLease, _Mapping]] = ..., revoke: _Optional[_Union[RevokeLease, _Mapping]] = ..., drafter: _Optional[_Union[DrafterWish, _Mapping]] = ..., report_interval: _Optional[_Union[ReportInterval, _Mapping]] = ...) -> None: ...

class GrantLease(_message.Message):
    __slots__ = ("epoch", "ttl_s", "drafter_version")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    TTL_S_FIELD_NUMBER: _ClassVar[int]
    DRAFTER_VERSION_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    ttl_s: float
    drafter_version: int
    def __init__(self, epoch: _Optional[int] = ..., ttl_s: _Optional[float] = ..., drafter_version: _Optional[int] = ...) -> None: ...

class RevokeLease(_message.Message):
    __slots__ = ("epoch",)
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    def __init__(self, epoch: _Optional[int] = ...) -> None: ...

class ReportInterval(_message.Message):
    __slots__ = ("seconds",)
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    seconds: float
    def __init__(self, seconds: _Optional[float] = ...) -> None: ...

class DrafterWish(_message.Message):
    __slots__ = ("drafter_version", "uri")
    DRAFTER_VERSION_FIELD_NUMBER: _ClassVar[int]
    URI_FIELD_NUMBER: _ClassVar[int]
    drafter_version: int
    uri: str
    def __init__(self, drafter_version: _Optional[int] = ..., uri: _Optional[str] = ...) -> None: ...

class WatchFleetRequest(_message.Message):
    __slots__ = ("accepts_changes",)
    ACCEPTS_CHANGES_FIELD_NUMBER: _ClassVar[int]
    accepts_changes: bool
    def __init__(self, accepts_changes: _Optional[bool] = ...) -> None: ...

class FleetMember(_message.Message):
    __slots__ = ("hello", "status")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    hello: WorkerHello
    status: WorkerStatus
    def __init__(self, hello: _Optional[_Union[WorkerHello, _Mapping]] = ..., status: _Optional[_Union[WorkerStatus, _Mapping]] = ...) -> None: ...

class WatchFleetResponse(_message.Message):
    __slots__ = ("members", "removed_worker_ids", "is_change", "lending")
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    REMOVED_WORKER_IDS_FIELD_NUMBER: _ClassVar[int]
    IS_CHANGE_FIELD_NUMBER: _ClassVar[int]
    LENDING_FIELD_NUMBER: _ClassVar[int]
    members: _containers.RepeatedCompositeFieldContainer[FleetMember]
    removed_worker_ids: _containers.RepeatedScalarFieldContainer[str]
    is_change: bool
    lending: bool
    def __init__(self, members: _Optional[_Iterable[_Union[FleetMember, _Mapping]]] = ..., removed_worker_ids: _Optional[_Iterable[str]] = ..., is_change: _Optional[bool] = ..., lending: _Optional[bool] = ...) -> None: ...

class ReportQueueRequest(_message.Message):
    __slots__ = ("gateway_id", "queued_count", "pause_left_s", "load")
    GATEWAY_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUED_COUNT_FIELD_NUMBER: _ClassVar[int]
    PAUSE_LEFT_S_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    gateway_id: str
    queued_count: int
    pause_left_s: float
    load: GatewayLoad
    def __init__(self, gateway_id: _Optional[str] = ..., queued_count: _Optional[int] = ..., pause_left_s: _Optional[float] = ..., load: _Optional[_Union[GatewayLoad, _Mapping]] = ...) -> None: ...

class GatewayLoad(_message.Message):
    __slots__ = ("workers", "ended_tokens", "cut_tokens", "announced")
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    ENDED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    ANNOUNCED_FIELD_NUMBER: _ClassVar[int]
    workers: _containers.RepeatedCompositeFieldContainer[WorkerLoad]
    ended_tokens: _containers.RepeatedScalarFieldContainer[int]
    cut_tokens: _containers.RepeatedScalarFieldContainer[int]
    announced: _containers.RepeatedCompositeFieldContainer[AnnouncedRequests]
    def __init__(self, workers: _Optional[_Iterable[_Union[WorkerLoad, _Mapping]]] = ..., ended_tokens: _Optional[_Iterable[int]] = ..., cut_tokens: _Optional[_Iterable[int]] = ..., announced: _Optional[_Iterable[_Union[AnnouncedRequests, _Mapping]]] = ...) -> None: ...

class AnnouncedRequests(_message.Message):
    __slots__ = ("caller_number", "request_count")
    CALLER_NUMBER_FIELD_NUMBER: _ClassVar[int]
    REQUEST_COUNT_FIELD_NUMBER: _ClassVar[int]
    caller_number: int
    request_count: int
    def __init__(self, caller_number: _Optional[int] = ..., request_count: _Optional[int] = ...) -> None: ...

class WorkerLoad(_message.Message):
    __slots__ = ("worker_id", "running")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    running: _containers.RepeatedCompositeFieldContainer[CappedLoad]
    def __init__(self, worker_id: _Optional[str] = ..., running: _Optional[_Iterable[_Union[CappedLoad, _Mapping]]] = ...) -> None: ...

class CappedLoad(_message.Message):
    __slots__ = ("cap_tokens", "counts")
    CAP_TOKENS_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    cap_tokens: int
    counts: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, cap_tokens: _Optional[int] = ..., counts: _Optional[_Iterable[int]] = ...) -> None: ...

class ReportQueueResponse(_message.Message):
    __slots__ = ("bubble_s", "training_s")
    BUBBLE_S_FIELD_NUMBER: _ClassVar[int]
    TRAINING_S_FIELD_NUMBER: _ClassVar[int]
    bubble_s: float
    training_s: float
    def __init__(self, bubble_s: _Optional[float] = ..., training_s: _Optional[float] = ...) -> None: ...

class PublishDrafterRequest(_message.Message):
    __slots__ = ("base_version", "uri", "worker_id", "held_out_top1", "base_top1", "policy_version", "token_count")
    BASE_VERSION_FIELD_NUMBER: _ClassVar[int]
    URI_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    HELD_OUT_TOP1_FIELD_NUMBER: _ClassVar[int]
    BASE_TOP1_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    TOKEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    base_version: int
    uri: str
    worker_id: str
    held_out_top1: float
    base_top1: float
    policy_version: int
    token_count: int
    def __init__(self, base_version: _Optional[int] = ..., uri: _Optional[str] = ..., worker_id: _Optional[str] = ..., held_out_top1: _Optional[float] = ..., base_top1: _Optional[float] = ..., policy_version: _Optional[int] = ..., token_count: _Optional[int] = ...) -> None: ...

class GetDrafterRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetDrafterResponse(_message.Message):
    __slots__ = ("drafter",)
    DRAFTER_FIELD_NUMBER: _ClassVar[int]
    drafter: DrafterWish
    def __init__(self, drafter: _Optional[_Union[DrafterWish, _Mapping]] = ...) -> None: ...

class PublishDrafterResponse(_message.Message):
    __slots__ = ("drafter_version",)
    DRAFTER_VERSION_FIELD_NUMBER: _ClassVar[int]
    drafter_version: int
    def __init__(self, drafter_version: _Optional[int] = ...) -> None: ...

class SetLendingRequest(_message.Message):
    __slots__ = ("enabled",)
    ENABLED_FIELD_NUMBER: _ClassVar[int]
    enabled: bool
    def __init__(self, enabled: _Optional[bool] = ...) -> None: ...

class SetLendingResponse(_message.Message):
    __slots__ = ("was_enabled",)
    WAS_ENABLED_FIELD_NUMBER: _ClassVar[int]
    was_enabled: bool
    def __init__(self, was_enabled: _Optional[bool] = ...) -> None: ...

class ExcludeWorkersRequest(_message.Message):
    __slots__ = ("worker_ids", "excluded")
    WORKER_IDS_FIELD_NUMBER: _ClassVar[int]
    EXCLUDED_FIELD_NUMBER: _ClassVar[int]
    worker_ids: _containers.RepeatedScalarFieldContainer[str]
    excluded: bool
    def __init__(self, worker_ids: _Optional[_Iterable[str]] = ..., excluded: _Optional[bool] = ...) -> None: ...

class ExcludeWorkersResponse(_message.Message):
    __slots__ = ("excluded_worker_ids",)
    EXCLUDED_WORKER_IDS_FIELD_NUMBER: _ClassVar[int]
    excluded_worker_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, excluded_worker_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class GetFleetRequest(_message.Message):
    __slots__ = ("max_changes",)
    MAX_CHANGES_FIELD_NUMBER: _ClassVar[int]
    max_changes: int
    def __init__(self, max_changes: _Optional[int] = ...) -> None: ...

class StateSeconds(_message.Message):
    __slots__ = ("state", "seconds")
    STATE_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    state: WorkerState
    seconds: float
    def __init__(self, state: _Optional[_Union[WorkerState, str]] = ..., seconds: _Optional[float] = ...) -> None: ...

class StateChange(_message.Message):
    __slots__ = ("state", "at_unix_s")
    STATE_FIELD_NUMBER: _ClassVar[int]
    AT_UNIX_S_FIELD_NUMBER: _ClassVar[int]
    state: WorkerState
    at_unix_s: float
    def __init__(self, state: _Optional[_Union[WorkerState, str]] = ..., at_unix_s: _Optional[float] = ...) -> None: ...

class WorkerAccount(_message.Message):
    __slots__ = ("hello", "status", "ledger", "timeline", "standing")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    LEDGER_FIELD_NUMBER: _ClassVar[int]
    TIMELINE_FIELD_NUMBER: _ClassVar[int]
    STANDING_FIELD_NUMBER: _ClassVar[int]
    hello: WorkerHello
    status: WorkerStatus
    ledger: _containers.RepeatedCompositeFieldContainer[StateSeconds]
    timeline: _containers.RepeatedCompositeFieldContainer[StateChange]
    standing: str
    def __init__(self, hello: _Optional[_Union[WorkerHello, _Mapping]] = ..., status: _Optional[_Union[WorkerStatus, _Mapping]] = ..., ledger: _Optional[_Iterable[_Union[StateSeconds, _Mapping]]] = ..., timeline: _Optional[_Iterable[_Union[StateChange, _Mapping]]] = ..., standing: _Optional[str] = ...) -> None: ...

class GetFleetResponse(_message.Message):
    __slots__ = ("workers", "queued_count", "drafter_version", "drafter_uri", "lending_enabled", "bubble_utilisation", "drafters", "pause_left_s")
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    QUEUED_COUNT_FIELD_NUMBER: _ClassVar[int]
    DRAFTER_VERSION_FIELD_NUMBER: _ClassVar[int]
    DRAFTER_URI_FIELD_NUMBER: _ClassVar[int]
    LENDING_ENABLED_FIELD_NUMBER: _ClassVar[int]
    BUBBLE_UTILISATION_FIELD_NUMBER: _ClassVar[int]
    DRAFTERS_FIELD_NUMBER: _ClassVar[int]
    PAUSE_LEFT_S_FIELD_NUMBER: _ClassVar[int]
    workers: _containers.RepeatedCompositeFieldContainer[WorkerAccount]
    queued_count: int
    drafter_version: int
    drafter_uri: str
    lending_enabled: bool
    bubble_utilisation: float
    drafters: _containers.RepeatedCompositeFieldContainer[DrafterRecord]
    pause_left_s: float
    def __init__(self, workers: _Optional[_Iterable[_Union[WorkerAccount, _Mapping]]] = ..., queued_count: _Optional[int] = ..., drafter_version: _Optional[int] = ..., drafter_uri: _Optional[str] = ..., lending_enabled: _Optional[bool] = ..., bubble_utilisation: _Optional[float] = ..., drafters: _Optional[_Iterable[_Union[DrafterRecord, _Mapping]]] = ..., pause_left_s: _Optional[float] = ...) -> None: ...

class DrafterRecord(_message.Message):
    __slots__ = ("drafter_version", "worker_id", "at_unix_s", "held_out_top1", "policy_version")
    DRAFTER_VERSION_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    AT_UNIX_S_FIELD_NUMBER: _ClassVar[int]
    HELD_OUT_TOP1_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    drafter_version: int
    worker_id: str
    at_unix_s: float
    held_out_top1: float
    policy_version: int
    def __init__(self, drafter_version: _Optional[int] = ..., worker_id: _Optional[str] = ..., at_unix_s: _Optional[float] = ..., held_out_top1: _Optional[float] = ..., policy_version: _Optional[int] = ...) -> None: ...
