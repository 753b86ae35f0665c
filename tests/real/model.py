"""The language model of these tests: where it is, what it is asked, and what transformers makes of the same tokens."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from tlt_bench.engines.prepare import SHIPPED
from tlt_bench.tasks import WordProblems
from tlt_common.domain.ids import RequestId
from tlt_common.domain.prompt import Prompt, SamplingParams
from tlt_local.models.published import SMOLLM2

MODEL = SMOLLM2
DRAFTER = SHIPPED[MODEL.name]
MISSING = "needs `tlt models get smollm2`"
WEIGHTS = "model.safetensors"
NOISE = 0.05
"""Relative change of weights that are not the published ones."""


def task() -> WordProblems:
    """Return what the model is asked."""
    return WordProblems(MODEL.directory)


def asked(count: int, label: str = "", *, seed: int = 0, **sampling: Any) -> list[Prompt]:
    """Return requests for so many word problems, whose responses continue past the end token."""
    params = SamplingParams(**{"ignore_eos": True, **sampling})
    return [
        Prompt(request_id=RequestId(f"{label}p{place}"), token_ids=ids, sampling=params)
        for place, ids in enumerate(task().hard(count, seed=seed))
    ]


def noisy_tensors(seed: int) -> dict[str, torch.Tensor]:
    """Return the model's tensors with noise."""
    torch.manual_seed(seed)
    state = load_file(MODEL.directory / WEIGHTS)
    return {name: tensor * (1 + NOISE * torch.randn_like(tensor)) for name, tensor in state.items()}


def write_noisy(directory: Path, *, seed: int = 1) -> Path:
    """Write a checkpoint whose weights are not the published ones."""
    directory.mkdir()
    save_file(noisy_tensors(seed), directory / WEIGHTS, {"format": "pt"})
    for name in ("config.json", "generation_config.json"):
        (directory / name).write_bytes((MODEL.directory / name).read_bytes())
    return directory


@torch.no_grad()
def next_logits(model: Any, ids: Sequence[int], generated: Sequence[int]) -> torch.Tensor:
    """Return transformers' logits [T, V] before each generated token."""
    logits: torch.Tensor = model(torch.tensor([[*ids, *generated]])).logits[0, len(ids) - 1 : -1]
    return logits


def greedy_gap(logits_TV: torch.Tensor, generated: Sequence[int]) -> float:
    """Return by how much the logit of a generated token is below the largest, at most; 0: all are greedy choices."""
    chosen_T = logits_TV.gather(1, torch.tensor(generated).unsqueeze(1)).squeeze(1)
    return float((logits_TV.max(-1).values - chosen_T).max())


def logprob_gap(
    logits_TV: torch.Tensor, generated: Sequence[int], logprobs: Sequence[float], temperature: float = 1.0
) -> float:
    """Return the largest difference between reported log-probabilities and transformers'."""
    rows_TV = (logits_TV / (temperature or 1.0)).log_softmax(-1)
    expected_T = rows_TV.gather(1, torch.tensor(generated).unsqueeze(1)).squeeze(1)
    return float((expected_T - torch.tensor(logprobs)).abs().max())
