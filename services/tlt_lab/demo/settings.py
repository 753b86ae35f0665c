"""How large a demo run is."""

from dataclasses import asdict, dataclass

from tlt_lab.demo.record import Side


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSettings:
    """Sizes of a run. What is not said here is the suite's default."""

    steps: int = 12
    minutes: float = 9.5
    """The trainer begins no further step after that."""
    prompts: int = 8
    """Many, since a drafter learns from prompts: from 8, 24 and 65 it gets to 3.9, 5.6 and 6.7 tokens a round."""
    samples: int = 4
    """Responses per prompt: a group of GRPO."""
    cap_tokens: int = 1536
    """So high that the longest responses are few: at 1024 a tenth are cut, end together, and there is no tail."""
    hold_steps: int = 1
    """Steps of small problems only."""
    shift_steps: int = 1
    """Steps in which larger ones come in."""
    learning_rate: float = 5e-5
    """Batches of 32 responses are noisy: at 1e-4 the reward fell after six steps."""
    seed: int = 0
    sides: tuple[Side, ...] = ("on", "off")
    """How each step is answered; the trainer learns from the first of these."""
    workers: int = 2
    greedy_prompts: int = 16
    """Answered greedily with and without drafts, at the end."""

    def described(self) -> dict[str, str]:
        """For the report."""
        return {name: str(value) for name, value in asdict(self).items()}


QUICK = DemoSettings(steps=4, minutes=2.0, prompts=4, cap_tokens=512, greedy_prompts=4)
