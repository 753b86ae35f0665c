"""
Train the initial policy from random weights by imitating generated traces.

The schedule follows the number of tokens, so a run is the same on fast and slow machines. Only if the time limit would
cut it short does the schedule follow the clock instead, so that the learning rate still ends near zero.
"""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final

import torch
from torch.nn import functional
from torch.optim import AdamW, Muon, Optimizer
from transformers import LlamaForCausalLM

from countdown.model import new_policy, save_checkpoint
from countdown.packing import Batch, batches

TOKEN_BUDGET: Final = 10_000_000
MATRIX_LR: Final = 0.015
MATRIX_DECAY: Final = 0.02
OTHER_LR: Final = 0.003
WARM_STEPS: Final = 30
PLATEAU: Final = 0.25
"""Share of the run at the full learning rate; the rate then decays linearly."""

FLOOR: Final = 0.01
REPORT_EVERY_STEPS: Final = 25
SAVE_EVERY_STEPS: Final = 250


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Progress of a training run."""

    step: int
    token_count: int
    elapsed_s: float
    fraction: float
    """Completed share of the schedule, 0 to 1."""

    computed_loss: float
    """Nats per computed token (results and verdicts), with a floor of 0; averaged over about 20 steps."""

    loss: float
    """Weighted nats per token; random choices in the traces keep it well above 0."""

    def __str__(self) -> str:
        return (
            f"{self.fraction:4.0%}  step {self.step}  {self.token_count / 1e6:.2f} M tokens  "
            f"{self.elapsed_s / 60:.1f} min  {self.token_count / self.elapsed_s:.0f} tok/s  "
            f"loss {self.loss:.3f}  computed {self.computed_loss:.4f}"
        )


def learning_rate_factor(step: int, fraction: float) -> float:
    """Return the share of the full learning rate: warm-up over `WARM_STEPS`, plateau, then decay to `FLOOR`."""
    warm = min(1.0, (step + 1) / WARM_STEPS)
    fall = min(1.0, (1 - fraction) / (1 - PLATEAU))
    return warm * max(FLOOR, fall)


def make_model(
    out_dir: Path,
    *,
    minutes: float,
    threads: int = 2,
    seed: int = 0,
    token_budget: int = TOKEN_BUDGET,
    report: Callable[[Progress], None] = lambda _: None,
) -> Progress:
    """
    Train a policy from scratch and write it to `out_dir`, periodically and at the end.

    Args:
        out_dir: Directory for the checkpoint: bfloat16 weights, config and tokenizer.
        minutes: Time limit. A run that reaches it followed a shorter schedule and is not reproducible.
        threads: CPU threads of torch, set for the whole process.
        seed: Seed for the initial weights and the traces.
        token_budget: Length of the run in tokens.
        report: Called every `REPORT_EVERY_STEPS` steps and at the end.

    Raises:
        ValueError: The limits allow no step.
    """
    torch.set_num_threads(threads)
    model = new_policy(seed).train()
    progress: Progress | None = None
    for progress in _train(model, batches(seed), token_budget=token_budget, limit_s=60 * minutes):
        if progress.step % REPORT_EVERY_STEPS == 0:
            report(progress)
        if progress.step % SAVE_EVERY_STEPS == 0:
            save_checkpoint(model, out_dir)
    if progress is None:
        raise ValueError(f"no step fits in {minutes} minutes and {token_budget} tokens; allow more")
    report(progress)
    save_checkpoint(model, out_dir)
    return progress


def _train(
    model: LlamaForCausalLM, stream: Iterator[Batch], *, token_budget: int, limit_s: float
) -> Iterator[Progress]:
    """Yield after each optimizer step until the token budget or the time limit is reached."""
    optimizers = _optimizers(model)
    started_s, token_count, smooth = time.monotonic(), 0, _Smooth()
    for step in count():
        elapsed_s = time.monotonic() - started_s
        fraction = max(token_count / token_budget, elapsed_s / limit_s)
        if fraction >= 1:
            return
        for optimizer, full in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = full * learning_rate_factor(step, fraction)
        batch = next(stream)
        loss, computed_loss = _backward(model, batch)
        for optimizer, _ in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        token_count += batch.token_count
        smooth.add(loss, computed_loss)
        yield Progress(
            step=step + 1,
            token_count=token_count,
            elapsed_s=time.monotonic() - started_s,
            fraction=min(1.0, fraction),
            loss=smooth.loss,
            computed_loss=smooth.computed_loss,
        )


def _optimizers(model: LlamaForCausalLM) -> tuple[tuple[Optimizer, float], ...]:
    """Return Muon for the matrices inside layers and AdamW for the rest, each with its full learning rate."""
    named = dict(model.named_parameters())
    matrices = [tensor for name, tensor in named.items() if ".layers." in name and tensor.ndim == 2]
    others = [tensor for name, tensor in named.items() if ".layers." not in name or tensor.ndim != 2]
    return (
        (Muon(matrices, MATRIX_LR, weight_decay=MATRIX_DECAY), MATRIX_LR),
        (AdamW(others, OTHER_LR, betas=(0.9, 0.95), weight_decay=0.0), OTHER_LR),
    )


def _backward(model: LlamaForCausalLM, batch: Batch) -> tuple[float, float]:
    """Add the gradient of one batch. Return the weighted loss and the loss of computed tokens, both in nats."""
    with torch.autocast("cpu", torch.bfloat16):
        logits_BTV = model(input_ids=batch.ids_BT1[:, :-1], use_cache=False).logits
    losses = functional.cross_entropy(
        logits_BTV.float().flatten(0, 1), batch.ids_BT1[:, 1:].flatten(), reduction="none"
    )
    weights = batch.weights_BT.flatten()
    loss = (losses * weights).sum() / weights.sum()
    torch.autograd.backward(loss)
    return loss.item(), losses.detach()[weights > 1].mean().item()


class _Smooth:
    """Exponential averages of both losses over about 20 steps, bias-corrected."""

    def __init__(self) -> None:
        self._loss = self._computed = self._norm = 0.0

    def add(self, loss: float, computed_loss: float) -> None:
        self._loss = 0.95 * self._loss + 0.05 * loss
        self._computed = 0.95 * self._computed + 0.05 * computed_loss
        self._norm = 0.95 * self._norm + 0.05

    @property
    def loss(self) -> float:
        return self._loss / self._norm if self._norm else math.nan

    @property
    def computed_loss(self) -> float:
        return self._computed / self._norm if self._norm else math.nan
