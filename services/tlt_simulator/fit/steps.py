"""
Steps of a recorded run, with and without the suite. Pure.

A step consists of the requests between two updates of the weights. In a comparison its prompts are rolled out twice;
responses without the suite are those that were requested while lending was off and had no drafts.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from tlt_common.domain.response import FinishReason
from tlt_common.journal.gateway_lines import RequestOutcome, ResponseLine
from tlt_simulator.fit.recorded import RecordedRun
from tlt_simulator.trace import RunTrace, TraceSample, TraceStep
from tlt_simulator.traces.forms.journal import ended_s, is_plain, off_times


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedStep:
    """A step of one side. Times are seconds; Unix times end in `at_s`."""

    number: int
    """Number of the step from 1, the same on both sides."""
    with_suite: bool
    responses: tuple[ResponseLine, ...]
    began_at_s: float
    ended_at_s: float
    """End of its last response."""
    learn_s: float | None
    """Time from the end of the step's last response, on any side, to the update; null if the run ended before."""
    update_s: float | None

    @property
    def rollout_s(self) -> float:
        """Time from the first request to the last response."""
        return self.ended_at_s - self.began_at_s

    @property
    def step_s(self) -> float | None:
        """Duration of the whole step; null if the run ended before."""
        if self.learn_s is None or self.update_s is None:
            return None
        return self.rollout_s + self.learn_s + self.update_s

    @property
    def tokens(self) -> int:
        """Tokens of all its responses."""
        return sum(line.tokens for line in self.responses)


def recorded_steps(run: RecordedRun) -> tuple[RecordedStep, ...]:
    """Return the steps in order of time. In a comparison, the two sides of a step follow each other."""
    updates = run.updates
    begins = [update.began for update in updates]
    by_step = dict[int, list[ResponseLine]]()
    for line in sorted(run.responses, key=lambda line: line.arrived):
        if line.outcome is RequestOutcome.FINISHED and line.tokens:
            by_step.setdefault(bisect_right(begins, line.arrived), []).append(line)
    off = tuple(off_times(run.lending))
    found = list[RecordedStep]()
    for number, (after, lines) in enumerate(sorted(by_step.items()), 1):
        update = updates[after] if after < len(updates) else None
        over_s = max(map(ended_s, lines))
        learn_s = max(0.0, update.began - over_s) if update else None
        sides = dict[bool, list[ResponseLine]]()
        for line in lines:
            sides.setdefault(not is_plain(line, off), []).append(line)
        for with_suite, responses in sorted(sides.items(), key=lambda side: side[1][0].arrived):
            found.append(
                RecordedStep(
                    number=number,
                    with_suite=with_suite,
                    responses=tuple(responses),
                    began_at_s=responses[0].arrived,
                    ended_at_s=max(map(ended_s, responses)),
                    learn_s=learn_s,
                    update_s=update.at - update.began if update else None,
                )
            )
    return tuple(found)


def trace_of(steps: Sequence[RecordedStep], source: str, *, plain: Sequence[RecordedStep] = ()) -> RunTrace:
    """Return the responses of steps of one side, with the times of both if `plain` has them without it."""
    prompts, others = dict[str, int](), {step.number: step for step in plain}
    cap = max(line.cap for step in steps for line in step.responses)
    found = tuple(_trace_step(step, others.get(step.number), prompts) for step in steps)
    return RunTrace(source=source, steps=found, cap=cap)


def _trace_step(step: RecordedStep, plain: RecordedStep | None, prompts: dict[str, int]) -> TraceStep:
    timed = plain or step
    return TraceStep(
        samples=tuple(
            TraceSample(
                prompt=prompts.setdefault(line.group, len(prompts)),
                prompt_tokens=line.prompt,
                tokens=line.tokens,
                ends=line.finish is not FinishReason.LENGTH,
                after_s=line.arrived - step.began_at_s,
            )
            for line in step.responses
        ),
        rollout_s=None if timed.with_suite else timed.rollout_s,
        suite_rollout_s=step.rollout_s if step.with_suite else None,
        step_s=timed.step_s,
    )
