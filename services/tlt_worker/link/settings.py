"""Settings passed to the scheduler process at start, through its environment."""

from pathlib import Path
from typing import Final

from pydantic import Field

from tlt_common.config.base import Frozen
from tlt_common.domain.arm import Arm
from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_worker.capacity.memory.memory import BACKLOG_BYTES
from tlt_worker.engine_config import EngineConfig
from tlt_worker.experiment import NONE, Experiment

LINK_VARIABLE: Final = "TLT_ENGINE_LINK"
"""Environment variable of an engine's processes: `LinkSettings` as JSON. Without it the plug-in does nothing."""

MODELS_PACKAGE: Final = "tlt_worker.scheduler.models"
"""Package in which SGLang finds the classes of ours that run drafters."""

SIMULATION_VARIABLE: Final = "SGLANG_SIMULATE_ACC_LEN"
"""Environment variable that makes SGLang simulate acceptance, for benchmarks: responses are then not the model's."""

UP_QUEUE_MESSAGES: Final = 128
"""Messages that each end of the link buffers: 256 MiB at 256 states of 4096 bf16 each. The worker reads them
immediately into its queue, which is bounded in bytes; this limit is reached only while the worker's reader gets no CPU
time."""


class LinkSettings(Frozen):
    """The engine's configuration, and values that are known only at launch."""

    directory: str
    """Directory of both sockets."""
    device: str = "cpu"
    """`cuda` or `cpu`."""
    engine: EngineConfig = EngineConfig()
    experiment: Experiment = NONE
    architecture: DrafterArchitecture = DrafterArchitecture.EAGLE
    """Architecture of the served drafters."""
    layers: tuple[int, ...] = ()
    """Layers of the target that the drafter reads; empty for EAGLE, which reads the last hidden state."""
    backlog_bytes: int = BACKLOG_BYTES
    """Memory for hidden states that the drafter has not processed yet, in bytes."""
    graph_sizes: dict[str, dict[str, tuple[int, ...]]] = Field(default_factory=dict)
    """Batch sizes of CUDA graphs to capture, by arm name and stage; empty on a CPU."""
    phase_file: Path | None = None
    """File for the phases of the start; None only logs them."""
    fits_upto: dict[str, int] = Field(default_factory=dict)
    """Largest batch size at which an arm's workspace fits, by arm name. Arms that are not listed always fit."""

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The engine's arms."""
        return self.engine.arms_on(self.device)

    @property
    def up(self) -> str:
        """Address at which the worker receives."""
        return f"ipc://{self.directory}/up"

    @property
    def down(self) -> str:
        """Address at which the scheduler process receives."""
        return f"ipc://{self.directory}/down"

    @property
    def pulse(self) -> Path:
        """File of the `Pulse`."""
        return Path(self.directory) / "pulse"

    @property
    def failure(self) -> Path:
        """File with the error that ended the scheduler, if any."""
        return Path(self.directory) / "failure"

    def to_json(self) -> str:
        """Encode for the environment variable."""
        return self.model_dump_json()

    def fits(self, arm: Arm, batch: int) -> bool:
        """Return whether an arm's workspace fits with this many running requests."""
        return batch <= self.fits_upto.get(arm.name, batch)

    @classmethod
    def from_json(cls, text: str) -> "LinkSettings":
        """Decode the output of `to_json`."""
        return cls.model_validate_json(text)
