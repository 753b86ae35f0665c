"""How large a demo run is."""

from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSettings:
    """Sizes of a run. What is not said here is the suite's default."""

    steps: int = 12
    minutes: float = 10.5
    """The trainer begins no further step after that."""
    prompts: int = 4
    samples: int = 8
    """Responses per prompt: a group of GRPO."""
    cap_tokens: int = 1024
    hold_steps: int = 2
    """Steps of small problems only."""
    shift_steps: int = 3
    """Steps in which larger ones come in."""
    learning_rate: float = 1e-4
    """Higher breaks a policy of this size within a few steps."""
    seed: int = 0
    workers: int = 2
    greedy_prompts: int = 16
    """Answered greedily with and without drafts, at the end."""

    def described(self) -> dict[str, str]:
        """For the report."""
        return {name: str(value) for name, value in asdict(self).items()}


QUICK = DemoSettings(
    steps=4, minutes=2.0, prompts=2, samples=8, cap_tokens=512, hold_steps=1, shift_steps=1, greedy_prompts=4
)
