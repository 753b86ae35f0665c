"""
A drafter for the shipped policy, learned as the suite learns one: from the policy's own responses and their states.

The trainer service does this beside rollouts; here its learner runs alone, so that benches have a good drafter at once
and the same one each time.
"""

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch
from transformers import LlamaForCausalLM

from tlt_common.domain.hidden import HiddenFrame
from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_lab.demo.sampling import Response, sample
from tlt_lab.demo.task import draw_problems
from tlt_lab.demo.vocabulary import prompt_ids
from tlt_trainer.batch import collate, plan
from tlt_trainer.drafter.files import DrafterMeta, to_files
from tlt_trainer.learner import Learner
from tlt_trainer.policy import read_shape, read_shared
from tlt_trainer.pool import is_held_out
from tlt_trainer.score import Score, score_of

TOKEN_BUDGET: Final = 700_000
"""Expected tokens per round of a greedy chain of 3: 3.0 after 80 k tokens, 3.5 after 300 k, 3.6 after 480 k and after
690 k."""
PROBLEMS_AT_ONCE: Final = 64
CAP_TOKENS: Final = 1024
FRAME_TOKENS: Final = 256
BATCH_TOKENS: Final = 512
HELD_OUT_BATCHES: Final = 40
EVALUATION_SEEDS: Final = 1_000_000
"""Benches draw their problems with seeds below, drafters learn from problems of seeds above."""

CPU: Final = torch.device("cpu")


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where training stands."""

    tokens: int
    elapsed_s: float
    score: Score | None
    """On prompts kept out of training."""

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
    Train a drafter for the policy in `checkpoint` and write it to `out_dir`, in the form engines load.

    Args:
        checkpoint: The policy; its deep image has the same states, so the drafter serves both.
        out_dir: Gets model.safetensors, config.json and meta.json.
        threads: CPU threads of torch, set for the whole process.
        seed: Of problems, responses and the order of batches.
        token_budget: States trained on.
        problems: Answered at once; their states are learned from before the next ones.
        report: Called after every group of responses.
    """
    torch.set_num_threads(threads)
    model = LlamaForCausalLM.from_pretrained(checkpoint, dtype=torch.float32)
    shape = read_shape(checkpoint)
    learner = Learner(shape, CPU)
    learner.share(read_shared(checkpoint, shape, CPU))
    rng, began_s, held_out = random.Random(seed), time.monotonic(), list[HiddenFrame]()
    for group in _groups(model, seed, problems):
        held_out += [frame for frame in group if is_held_out(frame)]
        for frames in plan([frame for frame in group if not is_held_out(frame)], BATCH_TOKENS, rng):
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
    for name, content in to_files(learner.weights(), shape, meta).items():
        (out_dir / name).write_bytes(content)
    return progress


def _groups(model: LlamaForCausalLM, seed: int, count: int) -> Iterator[list[HiddenFrame]]:
    """Frames of ever new responses."""
    number = EVALUATION_SEEDS + seed * EVALUATION_SEEDS
    while True:
        problems = draw_problems(count, seed=number)
        responses = sample(model, problems, cap_tokens=CAP_TOKENS, seed=number)
        yield [frame for place, one in enumerate(responses) for frame in _frames(model, one, f"{number}-{place}/0")]
        number += 1


@torch.inference_mode()
def _frames(model: LlamaForCausalLM, response: Response, name: str) -> list[HiddenFrame]:
    """The policy's states over a response, as an engine captures them."""
    prompt = prompt_ids(response.problem.prompt)
    ids = [*prompt, *response.ids]
    states_TH = model.model(torch.tensor([ids])).last_hidden_state[0].bfloat16()
    found = []
    for start in range(0, len(ids) - 1, FRAME_TOKENS):
        end = min(start + FRAME_TOKENS, len(ids) - 1)
        found.append(
            HiddenFrame(
                request_id=RequestId(name),
                policy_version=PolicyVersion(0),
                start=start,
                token_ids=tuple(ids[start : end + 1]),
                hidden_size=states_TH.shape[1],
                dtype="BF16",
                hidden=states_TH[start:end].contiguous().view(torch.uint8).numpy().tobytes(),
                prompt_tokens=len(prompt),
                response_tokens=len(response.ids),
                finished=end == len(ids) - 1,
            )
        )
    return [frame for frame in found if frame.token_count > 1 and frame.start + frame.token_count > len(prompt)]


def _score(learner: Learner, held_out: list[HiddenFrame]) -> Score | None:
    groups = plan(held_out[-4 * HELD_OUT_BATCHES :], BATCH_TOKENS, random.Random(0))[:HELD_OUT_BATCHES]
    return score_of(learner.tally(collate(frames, CPU)) for frames in groups)
