"""What a run leaves behind: one JSON file that the report and the figures are made of."""

from pathlib import Path
from typing import Literal

from tlt_common.config.base import Frozen

Side = Literal["on", "off"]


class Response(Frozen):
    """One finished response."""

    tokens: int
    finished_s: float
    """Since the start of its rollout."""
    reward: float
    correct: bool
    rounds: int
    """Decoding rounds it took; tokens / rounds is its accept length."""


class Rollout(Frozen):
    """All prompts of a step, answered once."""

    side: Side
    """on: drafts allowed, idle workers lent. off: neither; for comparison only."""
    began_unix_s: float
    seconds: float
    responses: tuple[Response, ...]
    ledger: dict[str, float]
    """Worker-seconds by state meanwhile."""
    drafter_version: int
    """Of the workers when it ended; 0: none."""

    @property
    def tokens(self) -> int:
        """Produced, all responses."""
        return sum(response.tokens for response in self.responses)

    @property
    def accept_length(self) -> float:
        """Tokens per request and round, bonus token included."""
        return self.tokens / max(1, sum(response.rounds for response in self.responses))

    @property
    def tail_s(self) -> float:
        """From the moment 90 % of the responses were there to the last one."""
        finished = sorted(response.finished_s for response in self.responses)
        return finished[-1] - finished[max(0, int(0.9 * len(finished)) - 1)]

    @property
    def mean_reward(self) -> float:
        """Of all responses."""
        return sum(response.reward for response in self.responses) / len(self.responses)

    @property
    def accuracy(self) -> float:
        """Share of correct responses."""
        return sum(response.correct for response in self.responses) / len(self.responses)


class Step(Frozen):
    """One step of the trainer, on one side or on both."""

    index: int
    mix: dict[int, float]
    """Share of problems by how many numbers they have."""
    rollouts: tuple[Rollout, ...]
    """In the order they ran; the demo's steps have one of each side."""
    learn_began_unix_s: float
    learn_s: float
    """Loss, optimizer step and publishing weights; both sides share it."""
    learn_ledger: dict[str, float]
    """Worker-seconds by state meanwhile."""

    def side(self, side: Side) -> Rollout:
        """Return the rollout of that side, which must have run."""
        return next(rollout for rollout in self.rollouts if rollout.side == side)

    def step_s(self, side: Side) -> float:
        """Rollout and learning, in seconds."""
        return self.side(side).seconds + self.learn_s


class Interval(Frozen):
    """A worker was in one state."""

    worker: str
    state: str
    began_unix_s: float
    ended_unix_s: float


class Swap(Frozen):
    """A drafter became the fleet's."""

    version: int
    at_unix_s: float
    held_out_top1: float
    worker: str


class Difference(Frozen):
    """The first token at which two greedy responses part."""

    response: int
    token: int
    gap: float | None
    """Between the logprobs of the two tokens, nats; None where one response ended."""

    def __str__(self) -> str:
        gap = "one ended" if self.gap is None else f"the two tokens' logprobs are {self.gap:.4f} apart"
        return f"response {self.response}, token {self.token}: {gap}"


class Greedy(Frozen):
    """Greedy responses with and without drafts."""

    responses: int
    differences: tuple[Difference, ...] = ()
    """Of each response that differs."""

    @property
    def identical(self) -> int:
        """Responses without a difference."""
        return self.responses - len(self.differences)

    @property
    def largest_gap(self) -> float:
        """Of all differences, nats."""
        return max((found.gap for found in self.differences if found.gap is not None), default=0.0)


class Run(Frozen):
    """A whole run."""

    began_unix_s: float
    ended_unix_s: float
    start_up_s: float
    """From nothing to the first request taken."""
    machine: str
    versions: dict[str, str]
    settings: dict[str, str]
    steps: tuple[Step, ...]
    intervals: tuple[Interval, ...]
    swaps: tuple[Swap, ...]
    greedy: Greedy | None = None

    def save(self, path: Path) -> None:
        """Write it as JSON."""
        path.write_text(self.model_dump_json(indent=1))

    @classmethod
    def load(cls, path: Path) -> "Run":
        """Read what `save` wrote."""
        return cls.model_validate_json(path.read_text())
