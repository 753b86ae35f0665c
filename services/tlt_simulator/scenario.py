"""A simulation scenario: fleet, RL trainer, the suite's configuration, and all costs. Pure."""

from pydantic import Field, field_validator

from tlt_cache.config import CacheConfig
from tlt_common.config.base import Frozen
from tlt_common.domain.arm import OFF, Arm, arms_named
from tlt_coordinator.config import SpotConfig
from tlt_gateway.config import GatewayConfig
from tlt_simulator.costs.figure import CostFigure
from tlt_simulator.costs.model import NOTHING, CostModel
from tlt_simulator.costs.room import WorkerMemory, worker_memory
from tlt_trainer.config import DataSettings, PublishSettings
from tlt_worker.engine_config import EngineConfig, split_names, stable_names

UNPLANNED = 1
"""Tokens of a KV cache whose size is neither given nor planned yet."""


class RolloutFleet(Frozen):
    """The rollout workers."""

    workers: int = Field(ge=1, le=10_240)
    gpus: int = Field(1, ge=1, le=64)
    """GPUs per worker: its tensor-parallel group."""
    slots: int = Field(256, ge=1)
    """Concurrent requests per worker."""
    kv_room: int = Field(UNPLANNED, ge=1)
    """KV cache size of a worker, in tokens. `Scenario.planned` sets it."""
    plain_kv_room: int | None = Field(None, ge=1)
    """The same without the suite, whose drafter, trainer and graphs take memory. Null: `kv_room`."""

    @property
    def devices(self) -> int:
        """Number of GPUs."""
        return self.workers * self.gpus


class RlTrainer(Frozen):
    """The RL trainer between two rollouts."""

    learn_s: CostFigure
    """Time from a step's last response to the call with the new weights."""
    learn_token_s: CostFigure = NOTHING
    """Additional time for each token of the step's responses."""
    colocated: bool = False
    """Whether it learns on the workers' devices, which then cannot be lent, rather than on its own."""
    max_staleness: int = Field(0, ge=0)
    """
    Number of updates that may separate the weights that wrote a token from those that learn from it. With 0 a step
    begins when the one before is over; with more, requests of so many further steps run meanwhile, so that a colocated
    trainer cannot have any.
    """

    @property
    def is_asynchronous(self) -> bool:
        """Whether it learns while rollouts go on."""
        return self.max_staleness > 0


class GatewayKeys(Frozen):
    """Keys of the gateway that decide where requests run, named and documented as in its configuration."""

    pack_running: int = Field(GatewayConfig.model_fields["pack_running"].default, ge=0)


class EngineKeys(Frozen):
    """Keys of the engine that decide how rounds draft, as in the worker's configuration."""

    arms: tuple[str, ...] | None = None
    """Null for the defaults on a GPU."""
    speculate_below_requests: int = Field(EngineConfig.model_fields["speculate_below_requests"].default, ge=1)
    group_below_requests: dict[int, int] = Field(default_factory=dict)

    _split = field_validator("arms", mode="before")(split_names)
    _known = field_validator("arms")(stable_names)


class CacheKeys(Frozen):
    """Keys of the hidden-state cache, as in its configuration."""

    budget_bytes: int = Field(CacheConfig.model_fields["budget_bytes"].default, gt=0)


class SuiteKeys(Frozen):
    """The suite's configuration, under the names of `tlt up --set`."""

    lending: bool = True
    speculation: bool = True
    spot: SpotConfig = SpotConfig()
    gateway: GatewayKeys = GatewayKeys()
    engine: EngineKeys = EngineKeys()
    publish: PublishSettings = PublishSettings()
    data: DataSettings = DataSettings()
    cache: CacheKeys = CacheKeys()


class Scenario(Frozen):
    """A run to simulate."""

    name: str
    fleet: RolloutFleet
    trainer: RlTrainer
    costs: CostModel
    suite: SuiteKeys = SuiteKeys()
    drafter_tokens: float = Field(0.0, ge=0)
    """Training tokens of the run's initial drafter; 0 without one, unless it is public."""
    public_drafter: bool = False
    """Whether the run begins with a public drafter, which has not learned from this policy."""
    seed: int = 0
    memory: WorkerMemory | None = None
    """The plan by which `fleet` has room for requests and arms; null if nothing was planned."""

    @property
    def plain(self) -> "Scenario":
        """The same run without the suite: nothing is drafted or lent, nor is there memory for it."""
        keys = self.suite.model_copy(update={"lending": False, "speculation": False})
        fleet = self.fleet
        if fleet.plain_kv_room is not None:
            fleet = fleet.model_copy(update={"kv_room": fleet.plain_kv_room})
        return self.model_copy(update={"suite": keys, "fleet": fleet})

    @property
    def synchronous(self) -> "Scenario":
        """The same run with a synchronous trainer."""
        return self.model_copy(update={"trainer": self.trainer.model_copy(update={"max_staleness": 0})})

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The arms that engines choose from: those that are set or the defaults on a GPU, if they fit."""
        if not self.suite.speculation:
            return (OFF,)
        if self.memory is not None:
            return arms_named(self.memory.arms)
        return self.engine.arms_on("cuda")

    @property
    def engine(self) -> EngineConfig:
        """The configuration of engines."""
        return EngineConfig(
            **dict(self.suite.engine), max_running=self.fleet.slots, tensor_parallel=self.fleet.gpus, dtype="bfloat16"
        )

    def planned(self, card: str, model: str, context: int, *, kv_room: int | None = None) -> "Scenario":
        """
        Return the scenario with what fits onto its workers, as `tlt engine plan` divides their memory.

        Args:
            card: GPU, as for `worker_memory`.
            model: The policy, likewise.
            context: Maximum tokens of prompt and response.
            kv_room: Tokens of a KV cache on both sides; None for what the plan leaves.

        Raises:
            ConfigError: As for `worker_memory`.
        """
        engine = self.engine.model_copy(update={"context_length": context})
        memory = worker_memory(card, model, engine, kv_room=kv_room)
        rooms = {"kv_room": memory.kv_room, "plain_kv_room": memory.plain_kv_room}
        return self.model_copy(update={"fleet": self.fleet.model_copy(update=rooms), "memory": memory})

    @property
    def without_ngrams(self) -> "Scenario":
        """The same run with the suite, but without arms that find their drafts."""
        arms = tuple(arm.name for arm in self.arms if not arm.finds_drafts) or (OFF.name,)
        keys = self.suite.model_copy(update={"engine": self.suite.engine.model_copy(update={"arms": arms})})
        memory = None if self.memory is None else self.memory.model_copy(update={"arms": arms})
        return self.model_copy(update={"suite": keys, "memory": memory})
