"""Settings of a demo run."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from countdown.record import Side
from tlt_common.errors import ConfigError

LAYERS: Final = 4
"""Layers of the policy."""

SERVED_LAYERS: Final = 24
"""Layers that engines serve unless told otherwise: the policy's, and others that add nothing. At this depth, verifying
8 tokens costs little more than decoding one, even on a CPU."""

DRAFTER = Path(__file__).with_name("drafter")
"""Drafter for the shipped policy; `tlt demo make-drafter` trains an equivalent one."""

EAGER = {
    "publish.first_gain": "0.6",
    "publish.every_tokens": "16384",
    "nice": "5",
    "own_session": "false",
}
"""Score and publish often: a run of a few minutes gains more from an early drafter than from a better first one. While
the external trainer learns, which has GPUs of its own elsewhere, spot trainers get a quarter of the processors; with
the default nice value it would be a tenth, with 0 a half, and learning would take three quarters longer. In sessions of
their own they would get a tenth, whatever the nice value of their threads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """Settings of a run that differ from the suite's defaults."""

    max_steps: int = 48
    """Upper limit; the time limit usually ends a run earlier."""
    minutes: float
    """Length of the run, including start-up. No step begins that is expected to end later."""
    min_steps: int = 1
    """Steps to run even after the time limit."""
    prompts: int
    """Prompts per step."""
    samples: int
    """Responses per prompt: the GRPO group size."""
    cap_tokens: int
    """Maximum response length."""
    temperature: float = 1.0
    """Sampling temperature of all responses."""
    uniform_tokens: int | None = None
    """Length of every response, end token or not, so that there is no tail; None: the policy ends them."""
    learning_rate: float
    warmup_steps: int
    """Steps over which the learning rate rises."""
    seed: int = 0
    sides: tuple[Side, ...] = ("on", "off")
    """Sides on which each step is rolled out; the trainer learns from the first."""
    paired: bool = True
    """Sample with seeds, in float32, so that both sides generate the same responses. Otherwise without seeds, in
    bfloat16."""
    compare_cold: bool = False
    """Also roll out the other sides in steps that begin without a drafter. Delays the first drafter."""
    workers: int | None = None
    """None: as `tlt up` decides."""
    drafter: str = ""
    """Directory of the initial drafter; empty means none."""
    trainer: dict[str, str] = field(default_factory=lambda: dict(EAGER))
    """Settings of the spot trainers."""
    learner_threads: int = 1
    """Compute threads of the external trainer. With as many as there are workers, it would use the processors that idle
    workers train on."""

    @property
    def dtype(self) -> str:
        """Data type of the engines."""
        return "float32" if self.paired else "bfloat16"

    def described(self) -> dict[str, str]:
        """Return the settings as text for the report."""
        return {name: str(value) for name, value in asdict(self).items()} | {"dtype": self.dtype}


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSettings(RunSettings):
    """Settings of a run of the tiny reasoner."""

    minutes: float = 13.5
    prompts: int = 12
    """A drafter learns from many different prompts: with 8, 24 and 65 it reaches 3.9, 5.6 and 6.7 tokens per round.
    One in eight is held out for scoring, without which no drafter is published."""
    samples: int = 3
    cap_tokens: int = 1024
    """A tenth of the responses are truncated. A step takes as long as its longest response, twice if it is compared;
    with 1536 tokens a slow machine gets through five steps."""
    hold_steps: int = 1
    """Steps with small problems only."""
    shift_steps: int = 1
    """Steps over which larger problems are introduced."""
    learning_rate: float = 5e-5
    """Batches of 32 responses are noisy: at 1e-4 the reward fell after six steps."""
    warmup_steps: int = 2
    served_layers: int = SERVED_LAYERS
    """Layers that engines serve; `LAYERS`: the policy as it is trained."""


QUICK = DemoSettings(
    minutes=3.25,
    min_steps=3,
    samples=2,
    cap_tokens=320,
    drafter=str(DRAFTER),
    trainer={**EAGER, "publish.gain": "0"},
)
"""A smoke run of the same job: starts with a trained drafter and publishes the next one unless it is worse."""

WARM = DemoSettings(drafter=str(DRAFTER))
"""The whole run, from its first step with the shipped drafter, like a run that continues an earlier one."""


SHALLOW = DemoSettings(served_layers=LAYERS)
"""The whole run, with the policy served as it is: the drafter's one layer then costs a quarter of the policy."""

NO_TAIL = DemoSettings(minutes=8, cap_tokens=256, uniform_tokens=256, compare_cold=True)
"""Responses of equal length: workers idle only while the external trainer learns. Compared from the first step."""


def chosen(*, quick: bool = False, warm: bool = False, no_tail: bool = False, shallow: bool = False) -> DemoSettings:
    """
    Return the settings of a run.

    Raises:
        ConfigError: Several are chosen; the quick one is warm already.
    """
    kinds = {
        "quick": (quick, QUICK),
        "warm": (warm, WARM),
        "no_tail": (no_tail, NO_TAIL),
        "shallow": (shallow, SHALLOW),
    }
    wanted = [name for name, (is_wanted, _) in kinds.items() if is_wanted]
    if len(wanted) > 1:
        names = " and ".join(f"--{name.replace('_', '-')}" for name in wanted)
        raise ConfigError(f"{names} are mutually exclusive; use one of them", field=wanted[-1])
    return kinds[wanted[0]][1] if wanted else DemoSettings()
