"""
Answers a step's prompts from the same weights: with everything on, with drafts and lending off, or both, in turn.

The order alternates, so that a noisy machine disturbs both sides alike.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tlt_common.client import BlockingClient, Sample, SamplingParams, Speculation, TokenChunk
from tlt_lab.demo.coordinator import Ledger
from tlt_lab.demo.curriculum import reward
from tlt_lab.demo.record import Response, Rollout, Side
from tlt_lab.demo.task import Problem, verify
from tlt_lab.demo.vocabulary import response_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A rollout and what came back."""

    record: Rollout
    responses: list[list[TokenChunk]]
    """By prompt and sample."""


class Comparison:
    """The sides of one step after the other."""

    def __init__(
        self,
        client: BlockingClient,
        ledger: Ledger,
        *,
        sides: Sequence[Side],
        cap_tokens: int,
        watch: Callable[[Side, Sample], None],
    ) -> None:
        self._client = client
        self._ledger = ledger
        self._sides = sides
        self._cap_tokens = cap_tokens
        self._watch = watch

    def answer(
        self, step: int, problems: Sequence[Problem], prompt_ids: Sequence[Sequence[int]], samples: int
    ) -> tuple[Answered, ...]:
        """Answer on every side, in the order they ran."""
        order = self._sides if step % 2 == 0 else tuple(reversed(self._sides))
        return tuple(self._answer(side, problems, prompt_ids, samples) for side in order)

    def _answer(
        self, side: Side, problems: Sequence[Problem], prompt_ids: Sequence[Sequence[int]], samples: int
    ) -> Answered:
        is_on = side == "on"
        self._ledger.lend(enabled=is_on)
        self._ledger.since()
        began_unix_s, began = time.time(), time.perf_counter()
        finished: list[Sample] = []

        def on_progress(sample: Sample) -> None:
            finished.append(sample)
            self._watch(side, sample)

        responses = self._client.batch(
            prompt_ids,
            samples,
            SamplingParams(temperature=1.0, max_new_tokens=self._cap_tokens),
            on_progress=on_progress,
            speculation=Speculation.AUTO if is_on else Speculation.OFF,
            capture=is_on,
        )
        seconds = time.perf_counter() - began
        spent = self._ledger.since()
        self._ledger.lend(enabled="on" in self._sides)
        record = Rollout(
            side=side,
            began_unix_s=began_unix_s,
            seconds=seconds,
            responses=tuple(self._judged(sample, problems[sample.prompt_index]) for sample in finished),
            ledger=spent,
            drafter_version=self._ledger.drafter_version,
        )
        return Answered(record=record, responses=responses)

    def _judged(self, sample: Sample, problem: Problem) -> Response:
        text = response_text(sample.response.token_ids)
        tokens = len(sample.response.token_ids)
        stats = sample.response.stats
        return Response(
            tokens=tokens,
            finished_s=sample.elapsed_s,
            reward=reward(problem, text, length_tokens=tokens, cap_tokens=self._cap_tokens),
            correct=verify(problem, text),
            rounds=stats.rounds if stats else tokens,
        )
