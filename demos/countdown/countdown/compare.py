"""
Roll out a step's prompts with the same weights on each side: with TLT on, or with speculation and lending off.

Both sides use the same seeds, so they generate the same responses. The order alternates, so that noise on the machine
affects both sides alike.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from countdown.coordinator import Ledger
from countdown.record import Response, Rollout, Side
from tlt_suite import BlockingClient, Sample, SamplingParams, Speculation, TokenChunk


@dataclass(frozen=True, slots=True, kw_only=True)
class Grade:
    """What a response is worth."""

    reward: float
    correct: bool


Grader = Callable[[Sample], Grade]
"""Grades a response to a prompt of the step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SideResult:
    """One side of a step: its record and its responses."""

    record: Rollout
    responses: list[list[TokenChunk]]
    """By prompt and sample."""


class Comparison:
    """Runs the sides of a step one after the other."""

    def __init__(
        self,
        client: BlockingClient,
        ledger: Ledger,
        *,
        sides: Sequence[Side],
        policy_version: int,
        on_progress: Callable[[Side, Sample], None],
    ) -> None:
        self._client = client
        self._ledger = ledger
        self._policy_version = policy_version
        self._sides = sides
        self._on_progress = on_progress

    def roll_out(
        self,
        step: int,
        grader: Grader,
        prompt_ids: Sequence[Sequence[int]],
        samples: int,
        sampling: SamplingParams,
    ) -> tuple[SideResult, ...]:
        """Roll out every side; return the results in the order they ran."""
        order = self._sides if step % 2 == 0 else tuple(reversed(self._sides))
        return tuple(self._roll_out(side, grader, prompt_ids, samples, sampling) for side in order)

    def _roll_out(
        self,
        side: Side,
        grader: Grader,
        prompt_ids: Sequence[Sequence[int]],
        samples: int,
        sampling: SamplingParams,
    ) -> SideResult:
        is_on = side == "on"
        self._ledger.lend(enabled=is_on)
        self._ledger.since()
        began_unix_s, began = time.time(), time.perf_counter()
        finished: list[Sample] = []

        def on_progress(sample: Sample) -> None:
            finished.append(sample)
            self._on_progress(side, sample)

        responses = self._client.batch(
            prompt_ids,
            samples,
            sampling,
            on_progress=on_progress,
            speculation=Speculation.AUTO if is_on else Speculation.OFF,
            capture=is_on,
            # N-gram arms would draft the second side's responses from the first one's, which are the same.
            cache_salt=side,
            policy_version=self._policy_version,
        )
        seconds = time.perf_counter() - began
        spent = self._ledger.since()
        self._ledger.lend(enabled="on" in self._sides)
        record = Rollout(
            side=side,
            began_unix_s=began_unix_s,
            seconds=seconds,
            responses=tuple(graded(sample, grader(sample)) for sample in finished),
            ledger=spent,
            drafter_version=self._ledger.drafter_version,
        )
        return SideResult(record=record, responses=responses)


def graded(sample: Sample, grade: Grade) -> Response:
    """Return the record of a response."""
    tokens = len(sample.response.token_ids)
    stats = sample.response.stats
    return Response(
        prompt=sample.prompt_index,
        sample=sample.sample_index,
        tokens=tokens,
        finished_s=sample.elapsed_s,
        reward=grade.reward,
        correct=grade.correct,
        rounds=stats.rounds if stats else tokens,
    )
