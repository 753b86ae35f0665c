"""
Train a drafter for the shipped policy as the suite does: on the policy's own responses and their hidden states.

The trainer service does this during rollouts. Here its learner runs alone, so that benchmarks have a good drafter
immediately, and always the same one.
"""

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch
from transformers import LlamaForCausalLM

from countdown.sampling import Response, sample
from countdown.task import draw_problems
from countdown.vocabulary import prompt_ids
from tlt_common.drafter.meta import DrafterMeta
from tlt_common.recorded_rollouts import RecordedRollout
from tlt_trainer.data.frame import TrainingFrame
from tlt_trainer.data.held_out import HELD_OUT_BELOW
from tlt_trainer.data.pack import collate, plan
from tlt_trainer.drafter.files import to_files
from tlt_trainer.drafter.score import Score, score_of
from tlt_trainer.drafter.shared_weights import read_format, read_shared
from tlt_trainer.learner import Learner
from tlt_trainer.offline.states import FRAME_TOKENS, frames_of
from tlt_trainer.offline.training import BATCH_TOKENS

TOKEN_BUDGET: Final = 700_000
"""Expected tokens per round of a greedy chain of 3: 3.0 after 80 k tokens, 3.5 after 300 k, 3.6 after 480 k and after
690 k."""
PROBLEMS_AT_ONCE: Final = 64
CAP_TOKENS: Final = 1024
HELD_OUT_BATCHES: Final = 40
EVALUATION_SEEDS: Final = 1_000_000
"""Benchmarks draw problems with seeds below this value, drafter training with seeds above."""

CPU: Final = torch.device("cpu")


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Progress of training."""

    tokens: int
    elapsed_s: float
    score: Score | None
    """Score on held-out prompts."""

    def __str__(self) -> str:
        guesses = "" if self.score is None else f"  accept length of 3 drafts {self.score.accept_length:.2f}"
        return f"{self.tokens / 1e3:.0f} k tokens  {self.elapsed_s / 60:.1f} min{guesses}"


def make_drafter(
    checkpoint: Path,
    out_dir: Path,
    *,
    threads: int = 2,
    seed: int = 0,
    token_budget: int = TOKEN_BUDGET,
    problems: int = PROBLEMS_AT_ONCE,
    report: Callable[[Progress], None] = lambda _: None,
) -> Progress:
    """
    Train a drafter for the policy in `checkpoint` and write it to `out_dir` in the format that engines load.

    Args:
        checkpoint: The policy. Its deepened version has the same hidden states, so the drafter works with both.
        out_dir: Directory for model.safetensors, config.json and meta.json.
        threads: CPU threads of torch, set for the whole process.
        seed: Seed for problems, responses and the order of batches.
        token_budget: Number of hidden states to train on.
        problems: Problems per group; a group is trained on before the next one is sampled.
        report: Called after every group of responses.
    """
    torch.set_num_threads(threads)
    model = LlamaForCausalLM.from_pretrained(checkpoint, dtype=torch.float32)
    form = read_format(checkpoint)
    learner = Learner(form, CPU)
    learner.share(read_shared(checkpoint, form, CPU))
    rng, began_s, held_out = random.Random(seed), time.monotonic(), list[TrainingFrame]()
    for group in frames_of_responses(model, seed, problems):
        held_out += [frame for frame in group if frame.header.prompt_hash < HELD_OUT_BELOW]
        for frames in plan([frame for frame in group if frame.header.prompt_hash >= HELD_OUT_BELOW], BATCH_TOKENS, rng):
            learner.micro_step(collate(frames, CPU))
        progress = Progress(
            tokens=learner.counters.tokens, elapsed_s=time.monotonic() - began_s, score=_score(learner, held_out)
        )
        report(progress)
        if learner.counters.tokens >= token_budget:
            break
    meta = DrafterMeta(
        version=1,
        base=0,
        worker_id="make-drafter",
        steps=learner.counters.steps,
        tokens=learner.counters.tokens,
        held_out_top1=progress.score.top1 if progress.score else 0.0,
    )
    out_dir.mkdir(parents=True, exist_ok=True)
    for name, content in to_files(learner.weights(), form, meta).items():
        (out_dir / name).write_bytes(content)
    return progress


def frames_of_responses(
    model: LlamaForCausalLM, seed: int, count: int, *, frame_tokens: int = FRAME_TOKENS
) -> Iterator[list[TrainingFrame]]:
    """Yield the frames of new responses, `count` of them at a time, indefinitely."""
    number = EVALUATION_SEEDS + seed * EVALUATION_SEEDS
    while True:
        problems = draw_problems(count, seed=number)
        responses = sample(model, problems, cap_tokens=CAP_TOKENS, seed=number)
        yield [
            frame
            for place, one in enumerate(responses)
            for frame in frames_of(model.model, rollout_of(one), f"{number}-{place}/0", frame_tokens=frame_tokens)
        ]
        number += 1


def rollout_of(response: Response) -> RecordedRollout:
    """Return a response with its prompt, as token ids."""
    return RecordedRollout(prompt=tuple(prompt_ids(response.problem.prompt)), response=response.ids)


def _score(learner: Learner, held_out: list[TrainingFrame]) -> Score | None:
    groups = plan(held_out[-4 * HELD_OUT_BATCHES :], BATCH_TOKENS, random.Random(0))[:HELD_OUT_BATCHES]
    return score_of(learner.tally(collate(frames, CPU)) for frames in groups)
