"""What a spot trainer is told. Imports no torch, so that --help is instant."""

from pathlib import Path

from pydantic import Field

from tlt_common.config.base import Frozen, ServiceConfig

MIB = 2**20


class PublishSettings(Frozen):
    """When a drafter is worth sharing. Scores are of held-out data, own and published ones of the same."""

    first_top1: float = Field(0.55, ge=0, le=1)
    """The first one is published when it guesses this share of first draft tokens. Below, drafting hardly pays."""
    gain: float = Field(0.02, ge=0)
    """Later ones when a chain of three drafts yields so many tokens per round more than with the published one."""
    every_s: float = Field(8.0, gt=0)
    """Seconds of training between two publications; the end of a lease does not wait for it."""
    kept: int = Field(4, ge=2)
    """Own drafters kept in drafter_dir. Engines may still load one that was overtaken a moment ago."""


class DataSettings(Frozen):
    """Where training data comes from and how much is at hand."""

    pool_bytes: int = Field(256 * MIB, gt=0)
    """Frames kept in this process."""
    take_tokens: int = Field(16_384, ge=256)
    """Asked of the cache at a time."""
    take_every_s: float = Field(1.0, gt=0)
    """Between two such calls while a lease is held."""
    held_out_tokens: int = Field(4096, ge=64)
    """States a score is taken on, at most."""
    batch_tokens: int = Field(512, ge=64)
    """States of one batch, padding included; fewer where a step would take longer than `step_s`."""


class TrainerConfig(ServiceConfig):
    """One trainer beside one engine, on the same device."""

    socket: Path
    """Unix socket to serve on."""
    model: Path
    """Directory of the policy: its config.json says what the draft layer looks like."""
    drafter_dir: str
    """Path or fsspec URL where drafters are published, readable by every worker."""
    checkpoint_dir: str
    """Path or fsspec URL of this trainer's own checkpoints."""
    worker_id: str = Field("worker-0", min_length=1)
    """The worker it belongs to."""
    cache: str = ""
    """host:port of the hidden-state cache; empty: there is nothing to train on."""
    coordinator: str = ""
    """host:port; empty: what is trained is kept and not shared."""
    device: str = Field("auto", pattern="^(auto|cpu|cuda(:[0-9]+)?)$")
    """Where to train; auto takes a GPU if there is one."""
    threads: int = Field(1, ge=1)
    """Compute threads."""
    nice: int = Field(10, ge=0, le=19)
    """By how much the training thread's CPU priority is below the process's: an engine that gets a request must not
    wait for it."""
    step_s: float = Field(0.5, gt=0)
    """Longest a micro-step should take. Taking the device back waits for one."""
    score_every_s: float = Field(4.0, gt=0)
    """Seconds of training between two scores."""
    checkpoint_every_s: float = Field(30.0, gt=0)
    """Seconds of training between two checkpoints; one more at the end of each lease."""
    publish: PublishSettings = PublishSettings()
    """When a drafter is worth sharing."""
    data: DataSettings = DataSettings()
    """Where training data comes from."""


CONFIG = TrainerConfig
