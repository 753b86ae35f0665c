"""Commands of a benchmark to an engine in another process, and replies: frozen values sent as JSON lines."""

from pathlib import Path
from typing import Literal

from tlt_common.config.base import Frozen
from tlt_worker.engine_config import EngineConfig
from tlt_worker.experiment import NONE, Experiment


class StockSpeculation(Frozen):
    """Speculation by SGLang itself."""

    arm: str
    """Its steps, branches and tokens to verify. SGLang drafts the most likely tokens."""
    drafter: Path


class StartEngine(Frozen):
    """Start an engine. Paths are local to this machine."""

    op: Literal["start"] = "start"
    stock: bool = False
    """Use unmodified SGLang."""
    speculation: StockSpeculation | None = None
    """Speculation of unmodified SGLang; None for none."""
    returns_states: bool = False
    """Let requests to unmodified SGLang return hidden states. Responses then arrive whole."""
    model: Path
    engine: EngineConfig
    """Configuration of the engine. A stock engine ignores arms and drafter."""
    experiment: Experiment = NONE


class ForceArmsAt(Frozen):
    """Run these arms in turn; without arms, the bandit chooses."""

    op: Literal["force_arms"] = "force_arms"
    arms: tuple[str, ...]


class ReloadDrafter(Frozen):
    """Reload the drafter as if a trainer had published a new one: the bandit discards its rewards."""

    op: Literal["reload_drafter"] = "reload_drafter"


class SetCapture(Frozen):
    """Capture all hidden states of later requests, or none. Returns the number of states captured so far."""

    op: Literal["set_capture"] = "set_capture"
    enabled: bool


class ArmSwitch(Frozen):
    """Switch to another arm during generation."""

    after_tokens: int
    """Tokens of the first response before the switch."""
    arm: str


class Generate(Frozen):
    """Generate responses to all prompts at once."""

    op: Literal["generate"] = "generate"
    prompts: tuple[tuple[int, ...], ...]
    names: tuple[str, ...] = ()
    """Request ids; generated if empty."""
    max_new_tokens: tuple[int, ...]
    """Length of each response in tokens."""
    ends: bool = False
    """Whether responses end where the model ends them, at their lengths at most."""
    is_planned: bool = False
    """Whether lengths are those of responses that ended, so that they are not cut to the task's measured length."""
    temperature: float | None = None
    """None for the engine's default, which `BenchEngine` fills in."""
    seed: int | None = None
    """Seed of the first request; request i uses seed + i. None means sampling without seeds."""
    switches: tuple[ArmSwitch, ...] = ()


class Profile(Frozen):
    """Generate responses, and record the scheduler's activity in some rounds in which all are decoded."""

    op: Literal["profile"] = "profile"
    responses: Generate
    rounds: int


class RoundProfile(Frozen):
    """Average activity of a round. Times include the profiler's overhead."""

    rounds: int
    kernels: float
    """Kernels and memory operations on the device, including those inside CUDA graphs. On a CPU, torch operators."""
    launches: float
    """Launches by the host of kernels, memory operations and graphs. On a CPU, as `kernels`."""
    syncs: float
    """Calls in which the host waits for the device."""
    host_ms: float
    """Elapsed time without these waits."""
    device_share: float
    """Share of the time during which the device computes; 0 on a CPU."""


class GetCounters(Frozen):
    """Return the scheduler's counts since the last call."""

    op: Literal["get_counters"] = "get_counters"


class CheckCapture(Frozen):
    """Compare captured hidden states to transformers'."""

    op: Literal["check_capture"] = "check_capture"
    prompts: tuple[tuple[int, ...], ...]
    max_new_tokens: int


class CaptureCheck(Frozen):
    """Outcome of `CheckCapture`."""

    rows: int
    """Number of captured states."""
    wrong: int
    """Number of captured states that do not match their tokens."""
    missing: int
    """Number of states that were not captured: prompt tokens found in the prefix cache."""


class Counters(Frozen):
    """Sums over the engine's reports."""

    switches: int = 0
    recomputed_tokens: int = 0
    """Prompt and response tokens recomputed by the target."""
    caught_up_tokens: int = 0
    """Tokens that the drafter skipped and processed later."""


class Timing(Frozen):
    """
    Timing of one `Generate`, in seconds since the first request was sent.

    The window starts when every request has its first token and ends when the first request has all but one: the whole
    batch is decoding. It excludes the end because an engine with overlapped scheduling reports each token one round
    late, except the last one, which it reports together with the previous one.
    """

    seconds: float
    window_began_s: float
    window_s: float
    window_cpu_s: float
    """CPU seconds in the window, of the engine's processes and the process that drives them."""
    window_tokens: int
    window_rounds: int
    tokens: tuple[int, ...]
    """Tokens of each response."""
    rounds: tuple[int, ...]
    """Rounds of each response, including prefill."""
    at_s: tuple[float, ...]
    """Arrival times of the first request's chunks."""
    chunk_tokens: tuple[int, ...]
    """Tokens in each of those chunks."""
    switched_s: tuple[float, ...] = ()
    """Times at which each switch was requested."""

    @property
    def rate(self) -> float:
        """Tokens per second in the window."""
        return self.window_tokens / self.window_s

    @property
    def cpu_rate(self) -> float:
        """Tokens per CPU second in the window."""
        return self.window_tokens / self.window_cpu_s

    @property
    def round_s(self) -> float:
        """Seconds per round in the window."""
        return self.window_s / max(1, self.window_rounds)

    @property
    def accept_length(self) -> float:
        """Tokens per request and round, excluding prefill and its token."""
        return (sum(self.tokens) - len(self.tokens)) / max(1, sum(self.rounds) - len(self.rounds))


class Done(Frozen):
    """A command without a result has finished."""

    detail: str = ""


class Failed(Frozen):
    """A command failed."""

    error: str
