"""
What limits a drafter that learns from the steps of a run: the demo's steps, with one thing changed at a time.

Prompts are those of the demo's curriculum, responses those of the shipped policy, which a few steps of reinforcement
learning hardly change. A way learns from as many states per step as another, whatever else the machine does meanwhile;
the seconds that its thread computed are in the notes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from countdown.curriculum import Curriculum
from countdown.settings import DemoSettings
from tlt_bench.adapt.ahead import replayed
from tlt_bench.adapt.course import Course
from tlt_bench.adapt.data import BATCH_TOKENS, Frames, Policy
from tlt_bench.engines.bench_engine import log
from tlt_bench.ratios import Figures
from tlt_trainer.config import DataSettings
from tlt_trainer.data.frame_pool import FramePool

STEPS = 5
STATES = 40_000
"""States of a step: what an idle core learns from in seven seconds, a busy one in three times as many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsedStep:
    """Prompts of a step, with two sets of responses by frame."""

    frames: Frames
    ahead: Frames
    """Of the policy before, generated when the prompts were announced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningWay:
    """How a trainer learns from steps."""

    note: str
    states: int = STATES
    """States learned from per step."""
    batch_tokens: int = BATCH_TOKENS
    """States of a micro-step; longer windows are cut."""
    ahead: bool = False
    """Whether it has responses to the next step's prompts."""


WAYS = {
    "as_it_is": LearningWay(note="as trainers do"),
    "states_half": LearningWay(note="half the states per step: half the processor", states=STATES // 2),
    "states_double": LearningWay(note="twice the states per step", states=2 * STATES),
    "cut_64": LearningWay(note="micro-steps and windows of 64 states, as on a core that others share", batch_tokens=64),
    "ahead": LearningWay(note="with responses to the next step's prompts, of the policy before", ahead=True),
}


def measure_steps(policy: Policy, *, steps: int = STEPS) -> Figures:
    """Learn in every way; return the accept lengths of the last step, and what n-grams find in responses ahead."""
    demo = DemoSettings()
    curriculum = Curriculum(hold_steps=demo.hold_steps, shift_steps=demo.shift_steps)
    made = list[RehearsedStep]()
    for step in range(steps):
        log(f"sampling step {step + 1} of {steps}")
        problems = curriculum.problems(step, count=demo.prompts, seed=demo.seed)
        drawn = [
            policy.responses(problems, samples=demo.samples, seed=80_000_000 + place) for place in (step, -1 - step)
        ]
        made.append(RehearsedStep(frames=drawn[0], ahead=drawn[1]))
    found = Figures()
    for name, way in WAYS.items():
        lengths, seconds = learned(way, made)
        log(f"  {name}: {', '.join(f'{length:.2f}' for length in lengths)} tokens per round")
        found.add(f"steps_{name}_accept_length", lengths[-1:], f"{way.note}; {seconds:.0f} device seconds")
    last = made[-1]
    found.add("ngram_accept_length", [replayed(last.frames, [])], "n-grams of 5 in the last step's responses")
    found.add("ngram_ahead_accept_length", [replayed(last.frames, last.ahead)], "with responses generated ahead")
    return found


def learned(way: LearningWay, steps: Sequence[RehearsedStep], *, seed: int = 0) -> tuple[list[float], float]:
    """Return the accept length of every step but the first, as it begins, and the seconds computed."""
    pool = FramePool(budget_bytes=DataSettings().pool_bytes)
    course, lengths = Course(steps[-1].frames, seed=seed), list[float]()
    for step, following in pairwise(steps):
        pool.add(step.frames)
        if way.ahead:
            pool.add(following.ahead)
        course.train(pool, tokens=way.states, batch_tokens=way.batch_tokens)
        lengths.append(course.score(following.frames))
    return lengths, course.seconds
