"""The worker's configuration. Imports neither torch nor ray nor sglang."""

import json
from pathlib import Path

from pydantic import Field, field_validator, model_validator

from tlt_common.config.base import Frozen, ServiceConfig
from tlt_common.config.entry import ServiceEntry, service_entry
from tlt_common.config.loader import resolve
from tlt_common.domain.weights import SOURCE_PREFIXES
from tlt_common.errors import ConfigError
from tlt_worker.engine_config import EngineConfig


class TrainerSettings(Frozen):
    """The worker's spot trainer, which trains a drafter on the engine's device while the worker holds a lease from the
    coordinator.
    """

    enabled: bool = True
    """Start a spot trainer. Without a lease it uses memory, but no compute."""
    settings: dict[str, str | int | float | bool] = Field(default_factory=dict)
    """Keys of `tlt config explain trainer`, with dots for nested ones."""

    @field_validator("settings")
    @classmethod
    def _are_the_trainers(cls, settings: dict[str, str | int | float | bool]) -> dict[str, str | int | float | bool]:
        """Refuse here what would otherwise end each start of the trainer."""
        given = [f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in settings.items()]
        try:
            resolve(service_entry("trainer").keys, "trainer", {}, environment={}, settings=given)
        except ConfigError as error:
            raise ValueError(error.message) from error
        return settings


class WorkerConfig(ServiceConfig):
    """One engine on one device. Without the addresses of other services, it only serves rollouts."""

    component = "worker"

    model: Path
    """Directory of the Hugging Face checkpoint to serve, of a family in docs/models.md."""
    engine: EngineConfig = EngineConfig()
    """Settings of the SGLang engine."""
    worker_id: str = Field("worker-0", min_length=1)
    """Unique name of this worker; stable across restarts of the same replica."""
    advertise: str = ""
    """Host at which other services reach this worker. Empty: the host of `listen`."""
    pod: str = ""
    """Name of this worker's Kubernetes pod, for its labels and Events. Empty: not on Kubernetes."""
    coordinator: str = ""
    """host:port of the coordinator. Empty: no spot training; the device is never lent."""
    cache: str = ""
    """host:port of the hidden-state cache. Empty: hidden states are not captured."""
    tuner: str = ""
    """host:port of the tuner. Empty: the bandit learns from this engine's rounds only."""
    fleet: str = Field("default", min_length=1)
    """Name of this worker's fleet. Workers of a fleet that run the same model on the same device share bandit
    statistics through the tuner."""
    cores: tuple[int, ...] = ()
    """CPU cores to pin worker, engine and trainer to. Empty: all cores."""
    trainer: TrainerSettings = TrainerSettings()
    """Settings of the spot trainer."""
    drain_s: float = Field(0.0, ge=0)
    """Grace period in seconds for running requests after SIGTERM. New requests are refused meanwhile; requests still
    running afterwards are aborted."""
    sources: tuple[str, ...] = SOURCE_PREFIXES
    """Accepted prefixes of weight and drafter URIs. A prefix that begins with `/` is a directory, for paths and file://
    URIs; http:// and https:// must be listed to be accepted."""
    spool_bytes: int | None = Field(None, gt=0)
    """Size in bytes of the volume with `run_dir`, if smaller than its file system, as with a size limit on a Kubernetes
    volume; half of it is the maximum size of weights that are received or copied. Null: no such limit."""
    run_dir: Path | None = None
    """Directory for sockets and streamed weights. Keep it short: the path of a Unix socket is limited to 107
    characters. Null: a temporary directory."""
    startup_responses: Path | None = None
    """File with responses of an earlier run, as `tlt drafter train` reads them. Until the fleet has a drafter, idle
    workers compute the hidden states of some of them, so that the trainer has data before the run has responses. Needs
    a cache and a coordinator. Null: none."""
    drafter_dir: str | None = None
    """Path or fsspec URL (s3://, gs://, ...) to which the trainer publishes drafters; every worker must be able to read
    it. Null: a directory in `run_dir`."""
    checkpoint_dir: str | None = None
    """Path or fsspec URL for the trainer's checkpoints. Null: a directory in `run_dir`."""

    @property
    def trains(self) -> bool:
        """Whether a spot trainer shares the device: it needs a coordinator to grant leases."""
        return self.trainer.enabled and bool(self.coordinator)

    @model_validator(mode="after")
    def _has_one_source_of_drafters(self) -> "WorkerConfig":
        if self.engine.drafter and self.coordinator:
            raise ValueError(
                "engine.drafter is accepted only without a coordinator; publish the drafter to the coordinator instead"
            )
        return self


SERVICE = ServiceEntry(model=WorkerConfig, run="tlt_worker.main:run", extra="worker")
"""`tlt serve worker`."""
