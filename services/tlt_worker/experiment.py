"""Engine settings for benchmarks and tests."""

from pydantic import Field

from tlt_common.config.base import Frozen


class Experiment(Frozen):
    """
    Engine settings for benchmarks and tests only.

    `WorkerConfig` has no keys for them: two of them produce responses that are not the model's, and a fixed seed or
    SGLang's detailed log are of no use in production.
    """

    seed: int = 0
    """Seed of sampling and of the bandit's exploration."""
    lossless: bool = True
    """False keeps SGLang's own verification, which is not lossless, to prove that tests detect that."""
    simulated_accept_length: float = Field(0.0, ge=0)
    """
    If above 0, SGLang simulates accepting this many tokens per round, to time untrained weights. `EngineInfo.device`
    shows it.
    """
    shares_graphs: bool = True
    """
    False captures CUDA graphs of every arm separately, at every batch size at which any arm drafts, to measure the
    benefit of sharing.
    """
    compiles: bool = False
    """On a CPU, compile the functions that a GPU compiles on first use, and warm up as on a GPU."""
    log_level: str = "error"
    """Minimum severity of SGLang's own log."""

    @property
    def simulates(self) -> bool:
        """Whether acceptance is simulated."""
        return self.simulated_accept_length > 0


NONE = Experiment()
"""The defaults, used by services."""
