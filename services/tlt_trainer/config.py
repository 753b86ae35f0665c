"""Configuration of the spot trainer. Imports no torch, so that --help stays fast."""

from pathlib import Path

from pydantic import Field

from tlt_common.config.base import Frozen, ServiceConfig
from tlt_common.config.entry import ServiceEntry
from tlt_common.drafter.architecture import DrafterArchitecture

CHECKPOINT_EVERY_S = 30.0
"""
Seconds of training between checkpoints, which is what a trainer that dies in a lease loses at most: the end of a lease
writes one anyway. A checkpoint takes the training thread 8 to 122 ms (docs/results/services.md), so at most 0.4 %.
"""


SCORE_EVERY_TOKENS = 16_384
"""Most states trained on between evaluations: training ends after `PLATEAU_EVALUATIONS` of them without a gain,
however rarely drafters are published."""
HELD_OUT_PART = 4
"""An evaluation scores at most a quarter as many states as were trained on since the last one. One of 4,096 states
takes a third as long as training on them: a twelfth of the time."""
MIN_HELD_OUT_TOKENS = 64
POOL_BYTES = 2**28
"""
Byte budget for frames in a trainer's process. With 16 and 64 MiB and with 1 GiB, simulated runs took as long
(docs/results/sweeps.md).
"""
PLATEAU_EVALUATIONS = 8
"""
Evaluations, at least, in which the held-out score rose by no more than 0.01 tokens per round, before training stops.
With 4 and with 16, simulated runs took as long (docs/results/sweeps.md).
"""


class PublishSettings(Frozen):
    """When to publish a drafter. Own and published drafters are scored on the same held-out data."""

    first_gain: float = Field(0.8, ge=0)
    """Minimum speed of the first drafter, relative to how its engine decodes without it: expected tokens per round over
    the estimated duration of a round with a chain of three drafts, against the accept length of the engine's last
    rounds. The default is below 1 since a drafter may predict what n-grams cannot, and the bandit chooses between them.
    0 publishes at once."""
    gain: float = Field(0.02, ge=0)
    """Minimum gain of a later drafter over the published one, in tokens per round with a chain of three drafts. Chosen
    by `tlt simulate sweep` (docs/results/sweeps.md)."""
    every_tokens: int = Field(32_768, gt=0)
    """Minimum number of states trained on between publications; does not apply at the end of a lease. At most a tenth
    of the time passes with writing drafters, and engines load them for at most a twentieth of theirs. Chosen by
    `tlt simulate sweep` (docs/results/sweeps.md). Twice between publications, and at least every 16,384 states, the
    drafter is scored on held-out data."""

    @property
    def score_every_tokens(self) -> int:
        """States trained on between evaluations."""
        return max(1, min(SCORE_EVERY_TOKENS, self.every_tokens // 2))

    @property
    def held_out_tokens(self) -> int:
        """Maximum number of held-out states per evaluation."""
        return max(MIN_HELD_OUT_TOKENS, self.score_every_tokens // HELD_OUT_PART)


class DataSettings(Frozen):
    """Training data."""

    batch_tokens: int = Field(512, ge=64)
    """Maximum number of states per micro-step, packed without padding; fewer if the step would take longer than
    0.08 s."""


class TrainerKeys(Frozen):
    """
    The spot trainers of the workers. Set these keys as `trainer` of `tlt up`, as `worker.trainer` of the chart, or as a
    worker's `trainer.settings`; workers pass everything else.
    """

    nice: int = Field(10, ge=0, le=19)
    """CPU niceness of the training thread relative to the process, so that an engine that receives a request takes
    precedence; with `own_session` also that of the process relative to everything else on the machine."""
    own_session: bool = True
    """Run in a Linux session of its own, whose nice value is `nice`. Where the kernel divides processor time among
    sessions (autogroup), training would otherwise take as much of it as all other programs together. Has no effect in
    containers with processor shares of their own. Disable it where the trainer should share with the program that
    started the suite."""
    publish: PublishSettings = PublishSettings()
    """When to publish a drafter."""
    data: DataSettings = DataSettings()
    """Training data."""


class TrainerConfig(TrainerKeys, ServiceConfig):
    """The spot trainer of a worker, on the worker's device: its keys, and what the worker passes."""

    component = "trainer"

    socket: Path
    """Unix socket to listen on."""
    model: Path
    """Directory of the policy's checkpoint; its config.json determines the drafter's shape."""
    drafter_architecture: DrafterArchitecture = DrafterArchitecture.EAGLE
    """Architecture of the drafters to train, `eagle`, `eagle3`, `block` or `mtp`, which begins with the head of the
    model's checkpoint."""
    drafter_format: Path | None = None
    """Directory with the config.json of a drafter, whose format is trained. Null: the format that the other keys
    describe."""
    draft_vocabulary: int | None = Field(None, ge=1)
    """Maximum vocabulary size of an EAGLE-3 drafter's head, in tokens. Null: 32,000."""
    drafter_layers: tuple[int, ...] | None = None
    """Layers of the policy that an EAGLE-3 or block drafter reads. Null: a low, a middle and a high one."""
    drafter_dir: str
    """Path or fsspec URL to publish drafters to; readable by every worker."""
    checkpoint_dir: str
    """Path or fsspec URL for this trainer's checkpoints."""
    worker_id: str = Field("worker-0", min_length=1)
    """Id of the trainer's worker."""
    cache: str = ""
    """host:port of the hidden-state cache; empty means that there is no training data."""
    coordinator: str = ""
    """host:port of the coordinator; empty keeps drafters to this trainer."""
    device: str = Field("auto", pattern="^(auto|cpu|cuda(:[0-9]+)?)$")
    """Device to train on; auto uses a GPU if there is one."""
    threads: int = Field(1, ge=1)
    """Number of compute threads."""
    memory_share: float | None = Field(None, gt=0, le=1)
    """Maximum fraction of the GPU's memory that this process allocates. At the limit, training stops for the rest of
    the lease and continues in the next one with half the `data.batch_tokens`. Null: no limit."""
    checkpoint_every_s: float = Field(CHECKPOINT_EVERY_S, gt=0)
    """Seconds of training between checkpoints; each lease also ends with one."""
    plateau_evaluations: int | None = Field(PLATEAU_EVALUATIONS, ge=4)
    """Stop training after at least this many evaluations, and a full pass over the data, in which the held-out score
    rose by no more than 0.01 tokens per round. The device is then returned, and not lent again before a new policy,
    another trainer's drafter or unseen frames give it something to learn. Null never stops."""


SERVICE = ServiceEntry(model=TrainerConfig, own_keys=TrainerKeys, run="tlt_trainer.main:run", extra="trainer")
"""`tlt serve trainer`, as workers start it."""
