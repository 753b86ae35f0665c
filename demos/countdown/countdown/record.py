"""The record of a run: one JSON file from which the report and the figures are computed."""

from pathlib import Path
from typing import Literal

from countdown.fresh import FreshScores
from countdown.subject import Subject
from tlt_common.config.base import Frozen

Side = Literal["on", "off"]
"""Side of the comparison: TLT on, or speculation and lending off."""

GIVEN = "given"
"""Replaces the worker id in the swap to a drafter that the run started with."""


class Response(Frozen):
    """One finished response."""

    prompt: int
    """Index of the prompt in the step."""
    sample: int
    """Index among the responses to the prompt."""
    tokens: int
    finished_s: float
    """Seconds since the start of the rollout."""
    reward: float
    correct: bool
    rounds: int
    """Decoding rounds; tokens / rounds is the accept length."""


class Rollout(Frozen):
    """One rollout of all prompts of a step."""

    side: Side
    """on: speculation enabled, idle workers lent. off: both disabled; for comparison only."""
    began_unix_s: float
    seconds: float
    responses: tuple[Response, ...]
    ledger: dict[str, float]
    """Worker-seconds by state during the rollout."""
    drafter_version: int
    """Oldest drafter version among the workers at the end; 0 means none."""

    @property
    def tokens(self) -> int:
        """Tokens generated in all responses."""
        return sum(response.tokens for response in self.responses)

    @property
    def accept_length(self) -> float:
        """Tokens per request and round, including the bonus token."""
        return self.tokens / max(1, sum(response.rounds for response in self.responses))

    @property
    def tail_s(self) -> float:
        """
        Mean seconds from the start of the rollout to the completion of the longest tenth of the responses.

        Which responses these are depends on their lengths alone, so that both sides of a seeded step are judged by the
        same ones. The time between the completion of 90 % and of all would compare different responses, since the
        order in which they finish depends on how their workers share the batch.
        """
        longest = sorted(self.responses, key=lambda response: (-response.tokens, response.prompt, response.sample))
        tail = longest[: max(1, round(len(longest) / 10))]
        return sum(response.finished_s for response in tail) / len(tail)

    @property
    def mean_reward(self) -> float:
        """Mean reward of all responses."""
        return sum(response.reward for response in self.responses) / len(self.responses)

    @property
    def accuracy(self) -> float:
        """Share of correct responses."""
        return sum(response.correct for response in self.responses) / len(self.responses)


class Difference(Frozen):
    """The first token at which two responses to the same prompt with the same seed differ."""

    prompt: int
    sample: int
    token: int
    gap: float | None
    """Difference between the logprobs of the two tokens in nats; None if one response ended there."""

    def __str__(self) -> str:
        gap = "one response ended" if self.gap is None else f"the logprobs of the two tokens differ by {self.gap:.4f}"
        return f"prompt {self.prompt}, sample {self.sample}, token {self.token}: {gap}"


class Pairs(Frozen):
    """Token-by-token comparison of both sides of a step, generated with the same seeds."""

    responses: int
    differences: tuple[Difference, ...] = ()
    """One entry for each response that differs."""
    max_logprob_gap: float
    """Largest difference between the logprobs that both sides report for the same token, in nats."""

    @property
    def identical(self) -> int:
        """Number of responses that are identical, token for token, on both sides."""
        return self.responses - len(self.differences)


class Step(Frozen):
    """One step of the trainer, run on one side or on both."""

    index: int
    mix: dict[int, float]
    """Share of problems by the number of numbers they contain; empty: the task has one kind of problem."""
    rollouts: tuple[Rollout, ...]
    """In execution order. In the demo, a step that began before the first drafter has no `off` side."""
    learn_began_unix_s: float
    learn_s: float
    """Seconds for the loss, the optimizer step and publishing weights; shared by both sides."""
    learn_ledger: dict[str, float]
    """Worker-seconds by state during learning."""
    pairs: Pairs | None = None
    """None if the step has only one side or was sampled without seeds."""

    @property
    def is_compared(self) -> bool:
        """Whether both sides ran."""
        return len({rollout.side for rollout in self.rollouts}) == 2

    def side(self, side: Side) -> Rollout:
        """Return the rollout of a side. The side must have run."""
        return next(rollout for rollout in self.rollouts if rollout.side == side)

    def step_s(self, side: Side) -> float:
        """Return the seconds of rollout and learning on a side."""
        return self.side(side).seconds + self.learn_s


class Interval(Frozen):
    """A period during which a worker was in one state."""

    worker: str
    state: str
    began_unix_s: float
    ended_unix_s: float


class Swap(Frozen):
    """Publication of a new drafter to the fleet."""

    version: int
    at_unix_s: float
    held_out_top1: float
    worker: str
    """The worker that trained it; `GIVEN` if the run started with it."""


class Run(Frozen):
    """A complete run."""

    began_unix_s: float
    ended_unix_s: float
    start_up_s: float
    """Seconds from the start until the suite accepted requests."""
    machine: str
    versions: dict[str, str]
    settings: dict[str, str]
    steps: tuple[Step, ...]
    intervals: tuple[Interval, ...]
    swaps: tuple[Swap, ...]
    subject: Subject = Subject()
    fresh: FreshScores | None = None
    """None: the run had no fresh prompts, or no drafter at its start or its end to compare."""

    @property
    def has_mix(self) -> bool:
        """Whether the task has problems of several kinds."""
        return any(step.mix for step in self.steps)

    @property
    def trained(self) -> tuple[Swap, ...]:
        """Swaps to drafters trained in this run."""
        return tuple(swap for swap in self.swaps if swap.worker != GIVEN)

    @property
    def compared(self) -> tuple[Step, ...]:
        """Steps that ran on both sides."""
        return tuple(step for step in self.steps if step.is_compared)

    def save(self, path: Path) -> None:
        """Write the run as JSON."""
        path.write_text(self.model_dump_json(indent=1))

    @classmethod
    def load(cls, path: Path) -> "Run":
        """Read a file written by `save`."""
        return cls.model_validate_json(path.read_text())
