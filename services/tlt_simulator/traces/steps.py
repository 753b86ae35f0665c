"""Assembles steps from the responses that a reader finds, and validates them. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from hashlib import blake2b

from tlt_simulator.trace import RunTrace, TraceSample, TraceStep
from tlt_simulator.traces.form import Found, FoundResponse, FoundStep, Identity, TraceForm
from tlt_simulator.traces.values import refused

COUNT_SLACK = 0.01
"""Texts that are tokenised again have so many more or fewer tokens than were generated, at most: special tokens are
missing, and pieces that were sampled one by one become one."""
END_SLACK = 1.01
"""Times of a response and of its step are taken by different clocks."""


@dataclass(slots=True)
class PromptNumbers:
    """Numbers prompts in the order in which they are found, so that a number does not reveal the prompt."""

    known: dict[Identity, int] = field(default_factory=dict)

    def number(self, identity: Identity) -> int:
        """Return the number of a prompt. Only a hash of a text is kept."""
        if isinstance(identity, str):
            identity = blake2b(identity.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        return self.known.setdefault(identity, len(self.known))


@dataclass(slots=True)
class OpenStep:
    """A step whose responses are still being read."""

    number: int
    place: str
    samples: list[TraceSample] = field(default_factory=list)
    groups: Counter[Identity] = field(default_factory=Counter)
    firsts: dict[Identity, str] = field(default_factory=dict)
    """Location of the first response of each group."""
    begins_s: float = float("inf")
    ends_s: float = 0.0
    """End of its last response, or time of the last request, after its start."""
    slowest: str = ""
    """Location of that response."""
    is_timed: bool = False
    """Whether the durations of responses are known."""
    found: FoundStep | None = None


class StepCollector:
    """Collects the steps of a log, using about 100 bytes of memory per response."""

    def __init__(
        self, form: TraceForm, *, group: int | None, cap: int | None, tell: Callable[[int], None] = lambda _: None
    ) -> None:
        self._tell, self._found = tell, 0
        self.notes = list[str]()
        self._form, self._group, self._cap = form, group, cap
        self._steps = list[TraceStep]()
        self._before: tuple[int, float] | None = None
        self._open: OpenStep | None = None
        self._prompts = PromptNumbers()
        self._same = dict[int, int]()
        self._longest = self._unsaid = self._at_longest = self._said_cap = 0
        self._missing = list[str]()
        self._sizes = set[int]()

    def note(self, text: str) -> None:
        """Add a note to the trace, once."""
        if text not in self.notes:
            self.notes.append(text)

    def collect(self, found: Iterable[Found], source: str) -> RunTrace:
        """
        Return the trace of a reader's responses.

        Raises:
            ConfigError: The log is inconsistent; the message names file, line and field.
        """
        for one in found:
            if isinstance(one, FoundResponse):
                self._add(one)
            elif self._open is not None:
                self._open.found = one
        self._close()
        if not self._steps:
            raise refused(source, "it", "has no responses", "at least one")
        self._note_unknown()
        return RunTrace(
            source=f"{source} ({self._form.name})",
            steps=tuple(self._steps),
            cap=self._cap or max(self._said_cap, self._longest),
            notes=tuple(self.notes),
        )

    def _add(self, found: FoundResponse) -> None:
        step = self._step_of(found)
        if found.is_counted and self._cap is not None and abs(found.tokens - self._cap) <= self._cap * COUNT_SLACK + 1:
            found = replace(found, tokens=self._cap)
            self.note("texts within a hundredth of the cap are taken as cut by it")
        if self._cap is not None and found.tokens > self._cap:
            raise refused(found.place, self._form.tokens_field, f"is {found.tokens}", f"at most the cap, {self._cap}")
        prompt, group = self._named(found, step)
        self._count(group, found, step)
        if found.tokens > self._longest:
            self._longest, self._at_longest = found.tokens, 0
        self._at_longest += found.tokens == self._longest and found.ends is None
        ends = found.ends
        if ends is None:
            self._unsaid += 1
            ends = found.tokens != self._cap
        step.begins_s = min(step.begins_s, found.after_s)
        step.is_timed |= found.seconds is not None
        if (end_s := found.after_s + (found.seconds or 0.0)) > step.ends_s:
            step.ends_s, step.slowest = end_s, found.place
        self._found += 1
        self._tell(self._found)
        same = self._same.setdefault
        step.samples.append(
            TraceSample(
                prompt=self._prompts.number(prompt),
                prompt_tokens=same(found.prompt_tokens, found.prompt_tokens),
                tokens=same(found.tokens, found.tokens),
                ends=ends,
                after_s=found.after_s,
            )
        )

    def _step_of(self, found: FoundResponse) -> OpenStep:
        step = self._open
        if step is not None and step.number == found.step:
            return step
        if step is not None and found.step < step.number:
            raise refused(
                found.place, "step", f"is {found.step}, after step {step.number}", "steps in order, each in one piece"
            )
        if step is not None and found.step > step.number + 1:
            first, last = step.number + 1, found.step - 1
            self._missing.append(str(first) if first == last else f"{first} to {last}")
        self._close()
        self._open = OpenStep(found.step, found.place)
        return self._open

    def _named(self, found: FoundResponse, step: OpenStep) -> tuple[Identity, Identity]:
        """Return the identity of a response's prompt and group."""
        if found.prompt is not None:
            return found.prompt, found.prompt if found.group is None else found.group
        if self._group is None:
            raise refused(
                found.place,
                self._form.group_field,
                "is missing: nothing says which responses belong to one prompt",
                f"the field {self._form.group_field}, or the number of responses to each prompt (group) if they "
                "follow each other",
            )
        self.note("groups are taken from the order of responses; prompts of later epochs count as others")
        identity = (step.number, len(step.samples) // self._group)
        return identity, identity

    def _count(self, group: Identity, found: FoundResponse, step: OpenStep) -> None:
        step.groups[group] += 1
        if self._group is None:
            return
        step.firsts.setdefault(group, found.place)
        if step.groups[group] > self._group:
            raise refused(
                found.place,
                self._form.group_field,
                f"has {step.groups[group]} responses in step {step.number}; its first is at {step.firsts[group]}",
                f"{self._group} responses to each prompt of a step",
            )

    def _close(self) -> None:
        """Finish the open step."""
        step, self._open = self._open, None
        if step is None:
            return
        self._sizes.update(step.groups.values())
        for group, count in step.groups.items():
            if count != (self._group or count):
                raise refused(
                    step.firsts[group],
                    self._form.group_field,
                    f"has {count} of {self._group} responses in step {step.number}: some are missing",
                    f"{self._group} responses to each prompt of a step",
                )
        rollout_s = self._rollout_s(step)
        found = step.found
        began_s = found.began_s if found is not None else None
        self._require_later(began_s, step)
        step_s = found.step_s if found is not None else None
        suite_s = found.suite_rollout_s if found is not None else None
        self._said_cap = max(self._said_cap, (found.cap if found is not None else None) or 0)
        self._steps.append(
            TraceStep(samples=tuple(step.samples), rollout_s=rollout_s, suite_rollout_s=suite_s, step_s=step_s)
        )
        if step.begins_s > 0.0:
            self.note("the first request of a step is later than the beginning of the step")

    def _rollout_s(self, step: OpenStep) -> float | None:
        found_s = step.found.rollout_s if step.found is not None else None
        if found_s is None or step.found is None:
            return step.ends_s - step.begins_s if step.is_timed else None
        if step.ends_s > END_SLACK * found_s:
            raise refused(
                step.slowest,
                "the end of the response",
                f"is {step.ends_s:g} s after the beginning of step {step.number}",
                f"an end within the rollout of {found_s:g} s; all times in seconds",
            )
        if step.found.step_s is not None and step.found.step_s * END_SLACK < found_s:
            raise refused(
                step.found.place, "step_s", f"is {step.found.step_s:g}", f"at least rollout_s, which is {found_s:g}"
            )
        return found_s

    def _require_later(self, began_s: float | None, step: OpenStep) -> None:
        """Check that a step starts after the previous one, whose duration is then known."""
        if began_s is None:
            return
        before, self._before = self._before, (step.number, began_s)
        if before is None:
            return
        number, before_s = before
        if began_s < before_s:
            raise refused(
                step.place,
                "the beginning of the step",
                f"is {before_s - began_s:g} s before that of the step before it",
                "times in ascending order",
            )
        last = self._steps[-1]
        if last.step_s is None and step.number == number + 1:
            self._steps[-1] = replace(last, step_s=round(began_s - before_s, 6))

    def _note_unknown(self) -> None:
        if self._missing:
            self.note(f"steps that are not in the log: {', '.join(self._missing[:10])}")
        if len(self._sizes) > 1:
            self.note(f"prompts have {min(self._sizes)} to {max(self._sizes)} responses in a step")
        if not self._unsaid:
            return
        if self._cap is not None:
            self.note("the log does not say which responses ended by themselves: those as long as the cap did not")
        else:
            self.note(
                "neither the cap nor which responses ended by themselves is known: the longest response, "
                f"{self._longest} tokens, is taken as the cap, and all as ended; {self._at_longest} are as long"
            )
