"""What a worker is told. Imports no torch, ray or sglang."""

from pathlib import Path

from pydantic import Field, field_validator, model_validator

from tlt_common.bandit import EPSILON, SPECULATE_BELOW_REQUESTS
from tlt_common.config.base import Frozen, ServiceConfig
from tlt_common.domain.drafter import DrafterModel
from tlt_common.domain.strategy import NGRAM_BYTES, arms_named

MIB = 2**20


class TrainerSettings(Frozen):
    """The spot trainer beside the engine."""

    enabled: bool = True
    """Start one. It costs memory only, until the coordinator lends it the device."""
    nice: int = Field(10, ge=0, le=19)
    """By how much its CPU priority is below the engine's; a request that arrives must not wait for it to notice."""
    start_s: float = Field(30.0, gt=0)
    """Longest answer to Start; embedding and head are read then."""
    preempt_s: float = Field(5.0, gt=0)
    """Longest answer to Preempt; a trainer that takes longer is killed and started anew."""
    metrics_port: int | None = Field(None, ge=0, le=65535)
    """Port of its own metrics; null: the one above the worker's, any where that takes any, none where it has none."""
    settings: dict[str, str | int | float | bool] = Field(default_factory=dict)
    """Handed to `tlt serve trainer --set`, beside what the worker itself fills in."""


class WorkerConfig(ServiceConfig):
    """One engine on one device. Without addresses of other services it is a plain, complete rollout worker."""

    model: Path
    """Directory of a Hugging Face checkpoint (Llama, Qwen2, Qwen3)."""
    worker_id: str = Field("worker-0", min_length=1)
    """Kept over restarts of the same replica."""
    advertise: str = ""
    """Host other services reach this worker by; empty: the one it listens on."""
    pod: str = ""
    """Name of the Kubernetes pod this worker runs in, for its labels and Events; empty outside Kubernetes."""
    coordinator: str = ""
    """host:port; empty: the device is never lent to training."""
    cache: str = ""
    """host:port of the hidden-state cache; empty: nothing is captured."""
    tuner: str = ""
    """host:port; empty: this engine learns by itself."""
    fleet: str = Field("default", min_length=1)
    """Engines of one fleet, with the same model and device, learn from each other through the tuner."""
    drafter: Path | None = None
    """Directory of the drafter to start with; None: plain decoding until one arrives."""
    drafter_kind: DrafterModel | None = None
    """Architecture of learned drafters, `eagle` or `eagle3`; null: that of `drafter`, or eagle. Spot trainers make
    EAGLE drafters only."""
    draft_vocabulary: int | None = Field(None, ge=1)
    """Most tokens the head of an EAGLE-3 drafter may know; null: as many as that of `drafter`, or 32,000. Its memory
    is reserved."""
    arms: tuple[str, ...] | None = None
    """Speculation strategies the bandit chooses from: `off`, `chain-N` (N sampled drafts one after the other; with
    `-top1` the drafter's best ones), `tree-SxK-N` (S steps of K branches, N tokens verified) and `ngram-N` (N tokens
    retrieved). None: those of the device, as `tlt engine plan` shows them. `[off]` never drafts."""
    epsilon: float = Field(EPSILON, ge=0, le=1)
    """Share of choices that try another arm than the best."""
    speculate_below_requests: int = Field(SPECULATE_BELOW_REQUESTS, ge=1)
    """From this many running requests on the engine decodes plainly."""
    group_below_requests: dict[int, int] = Field(default_factory=dict)
    """Tokens that arms verify per request -> running requests below which these arms are allowed, as in {64: 3}. What
    is not named is allowed while a round verifies at most 256 tokens."""
    trace: Path | None = None
    """File that every decoding round is written to, for `tlt tuner replay`; null: none."""
    trace_bytes: int = Field(64 * MIB, ge=MIB)
    """Most bytes of the trace: the file and the one before it, which is kept as FILE.1."""
    ngram_bytes: int = Field(NGRAM_BYTES, ge=MIB)
    """Memory of the texts that n-gram arms retrieve from; the prompts used longest ago leave first."""
    dtype: str = Field("bfloat16", pattern="^(bfloat16|float16|float32)$")
    """Element type of weights and KV cache."""
    max_running: int = Field(16, ge=1)
    """Most requests decoded at once; more wait inside the engine."""
    max_total_tokens: int | None = Field(None, ge=1)
    """Tokens of KV cache; None: max_running full contexts."""
    context_length: int | None = Field(None, ge=2)
    """Most tokens of prompt and response; None: the model's own limit."""
    threads: int = Field(1, ge=1)
    """Compute threads of the engine."""
    cores: tuple[int, ...] = ()
    """CPU cores of this device: worker, engine and trainer stay on them. Empty: all."""
    capture_queue_bytes: int = Field(64 * MIB, gt=0)
    """Hidden states waiting for the cache; above this frames are dropped and counted."""
    trainer: TrainerSettings = TrainerSettings()
    """The spot trainer beside the engine."""
    drain_s: float = Field(0.0, ge=0)
    """Time that running requests get to finish after SIGTERM, while new ones are refused; then they are ended."""
    run_dir: Path | None = None
    """Sockets and streamed weights. Short, since a socket's path has 107 characters. None: a temporary directory."""
    drafter_dir: str | None = None
    """Path or fsspec URL (s3://, gs://, ...) where the trainer publishes drafters, readable by every worker; None: in
    run_dir."""
    checkpoint_dir: str | None = None
    """Path or fsspec URL where the trainer keeps its checkpoints; None: in run_dir."""
    tensor_parallel: int = Field(1, ge=1)
    """GPUs of one engine."""
    gpu_memory: float = Field(0.8, gt=0, lt=1)
    """Share of each GPU's memory for the engine's weights and KV cache. The trainer and work space get the rest."""
    graph_bytes: int | None = Field(None, ge=0)
    """Most memory of each GPU for CUDA graphs; those that save least are left out. None: two fifths of what gpu_memory
    leaves."""

    @field_validator("arms")
    @classmethod
    def _known_arms(cls, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if names is not None:
            arms_named(names)
        return names

    @model_validator(mode="after")
    def _one_source_of_drafters(self) -> "WorkerConfig":
        if self.drafter and self.coordinator:
            raise ValueError("drafter is for a worker without coordinator; publish it to the coordinator instead")
        return self

    @model_validator(mode="after")
    def _a_trainer_of_its_drafters(self) -> "WorkerConfig":
        if self.drafter_kind == DrafterModel.EAGLE3 and self.coordinator and self.trainer.enabled:
            raise ValueError(
                "drafter_kind is eagle3, and the spot trainer makes EAGLE drafters only; "
                "set trainer.enabled to false or drafter_kind to eagle"
            )
        return self
