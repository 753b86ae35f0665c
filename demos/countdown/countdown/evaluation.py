"""Accuracy and response lengths of a policy."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import LlamaForCausalLM

from countdown.sampling import Response, sample
from countdown.task import COUNTS, draw_problems


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Results of an evaluation. Shares are of all responses; lengths are in tokens and include the end token."""

    response_count: int
    accuracy: float
    accuracy_by_count: dict[int, float]
    """Accuracy by the number of numbers in the problem; only counts that occurred."""

    wrong_share: float
    """Share of responses that are complete but wrong."""

    cut_share: float
    """Share of responses truncated at the length cap."""

    mean_tokens: float
    p50_tokens: int
    p90_tokens: int
    max_tokens: int

    def __str__(self) -> str:
        by_count = "  ".join(f"{count} numbers {share:.0%}" for count, share in self.accuracy_by_count.items())
        return (
            f"{self.response_count} responses: {self.accuracy:.1%} correct ({by_count}), {self.wrong_share:.1%} wrong, "
            f"{self.cut_share:.1%} cut; tokens: mean {self.mean_tokens:.0f}, p50 {self.p50_tokens}, "
            f"p90 {self.p90_tokens}, max {self.max_tokens}"
        )


def summarize(responses: Sequence[Response]) -> Evaluation:
    """
    Summarize sampled responses.

    Raises:
        ValueError: `responses` is empty.
    """
    if not responses:
        raise ValueError("no responses to summarize; evaluate at least one problem")
    lengths = sorted(len(response.ids) for response in responses)
    by_count = {count: [r.is_correct for r in responses if len(r.problem.numbers) == count] for count in COUNTS}
    return Evaluation(
        response_count=len(responses),
        accuracy=_share([response.is_correct for response in responses]),
        accuracy_by_count={count: _share(correct) for count, correct in by_count.items() if correct},
        wrong_share=_share([response.is_complete and not response.is_correct for response in responses]),
        cut_share=_share([not response.is_complete for response in responses]),
        mean_tokens=sum(lengths) / len(lengths),
        p50_tokens=lengths[len(lengths) // 2],
        p90_tokens=lengths[len(lengths) * 9 // 10],
        max_tokens=lengths[-1],
    )


def evaluate(checkpoint: Path, *, count: int = 384, cap_tokens: int = 1024, seed: int = 123) -> Evaluation:
    """
    Sample the checkpoint at temperature 1 on `count` problems of the default mix.

    There are few small problems, so most of them occurred in training; an answer still has to be found by guessing.
    """
    model = LlamaForCausalLM.from_pretrained(checkpoint, dtype=torch.float32)
    return summarize(sample(model, draw_problems(count, seed=seed), cap_tokens=cap_tokens, seed=seed))


def _share(values: Sequence[bool]) -> float:
    return sum(values) / len(values)
