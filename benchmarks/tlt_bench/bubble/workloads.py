"""Response lengths of RL runs, as distributions of `tlt simulate`."""

from collections.abc import Iterator
from dataclasses import dataclass

from tlt_simulator.traces.drawn import Drawn, drawn_steps
from tlt_simulator.traces.lengths import LengthSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A distribution with a name."""

    name: str
    spec: LengthSpec

    def drawn(self, *, prompts: int, group: int, of: int, steps: int, seed: int) -> Iterator[list[Drawn]]:
        """Yield the responses of successive steps, as `drawn_steps` does."""
        return drawn_steps(self.spec, prompts=prompts, group=group, of=of, steps=steps, seed=f"{self.name}/{seed}")


THINKING = Workload(
    name="thinking",
    spec=LengthSpec(median=5000, prompt_spread=0.6, epoch_spread=0.1, chance_spread=0.5, endless=0.005, drift=0.01),
)
"""A reasoning model: one response in 200 at the cap, one in 30 above 20,000 tokens."""
ALIKE = Workload(name="alike", spec=LengthSpec(median=3000, prompt_spread=0.0, epoch_spread=0.0, chance_spread=0.8))
"""Prompts tell nothing: all spread is chance."""
DRIFTING = Workload(
    name="drifting",
    spec=LengthSpec(median=1500, prompt_spread=0.5, epoch_spread=0.3, chance_spread=0.7, endless=0.02, drift=0.05),
)
"""A policy whose responses grow by 5 % a step."""
WORKLOADS = (THINKING, ALIKE, DRIFTING)
