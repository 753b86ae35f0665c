"""
Optimizers of a drafter: Muon for matrices, AdamW for vectors and token rows, a running average of the weights, and the
minimum tokens per step.

The learning rate of spot trainers never decays to zero, since training is open-ended; instead the running average is
published and scored. Measured on the demo's model (held-out agreement of the three passes, %): after 80 k tokens
84/82/82 without and 85/85/86 with it; after 20 k tokens equal.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial
from itertools import starmap

import torch
from torch import Tensor

from tlt_common.drafter.format import DrafterFormat
from tlt_common.drafter.tensors import HEAD, MARKOV, TABLES
from tlt_trainer.drafter.kinds.draft_model import AnyDrafter
from tlt_trainer.drafter.muon import ROUNDS, Muon
from tlt_trainer.drafter.vocabulary import rows_for

MUON_RATE = 0.03
"""With the decay below, best or second best of 0.02, 0.03 and 0.04 at every checkpoint. Expected tokens per round of a
chain of 3 after 20, 40, 80, 160 and 320 k tokens: 2.31, 2.96, 3.19, 3.40, 3.61."""
ADAM_RATE = 0.002
HEAD_RATE = 0.0005
"""Of EAGLE-3's head, which begins as the policy's. Not a result of measurements."""
MUON_DECAY = 0.02
WARMUP_STEPS = 10
COOLING_TOKENS = 150_000
"""Tokens over which the rates decay along a cosine to `COOLED` of their peak. Without decay, a rate of 0.03 reaches
3.21 instead of 3.40 after 160 k tokens."""
COOLED = 0.25
"""From there on the rates are inversely proportional to the tokens, down to `ENDED`: a drafter that has learned from
many responses forgets them over a few. The shipped one of SmolLM2-135M-Instruct, which had learned from 958,000 tokens,
went three times through the responses to 12 prompts. Its accept length on other prompts was 2.71 before, and 2.59, 2.71
and 2.74 afterwards with 0.25, 0.1 and 0.05 of the peak; on those 12 prompts 2.94, and 3.06, 3.12 and 3.08."""
LONG, ENDED = 0.4, 0.05
"""Where training has an end, the rates decay to the second along a cosine, and begin lower the longer it is, at the
first at least. A drafter of SmolLM2-135M-Instruct that began with the whole peak had learned less after 70 k tokens
(accept length of a chain of 3: 1.49 instead of 1.62), and diverged after 100 k."""
AVERAGED_SHARE = 10
"""The average spans about a tenth of the steps made so far, at most 1 / SLOWEST_AVERAGE steps."""
SLOWEST_AVERAGE = 0.02


def rate(steps: int, tokens: int, planned_tokens: int | None = None, *, before: int = 0) -> float:
    """
    Return the factor on the peak rates for the next step.

    Args:
        steps: Steps so far.
        tokens: Tokens so far.
        planned_tokens: Tokens at which training will end; None if it is open-ended.
        before: Tokens that the drafter had learned from when a training with planned tokens began.
    """
    warm = min(1.0, (steps + 1) / WARMUP_STEPS)
    if planned_tokens:
        peak = min(1.0, max(LONG, math.sqrt(COOLING_TOKENS / planned_tokens)), _open_ended(before))
        return warm * peak * _decayed(tokens / planned_tokens, ENDED / peak)
    return warm * _open_ended(tokens)


def _open_ended(tokens: int) -> float:
    if tokens <= COOLING_TOKENS:
        return _decayed(tokens / COOLING_TOKENS, COOLED)
    return max(ENDED, COOLED * COOLING_TOKENS / tokens)


def _decayed(progress: float, least: float) -> float:
    """Return a cosine decay from 1 to `least`, constant from a progress of 1 on."""
    return 1 - (1 - least) * 0.5 * (1 - math.cos(math.pi * min(1.0, progress)))


def average_weight(steps: int) -> float:
    """Return the weight of the newest weights in the average after this many steps."""
    return max(SLOWEST_AVERAGE, AVERAGED_SHARE / (steps + AVERAGED_SHARE))


class DrafterOptimizer:
    """
    Several optimizers combined, one per matrix and one for all vectors, so that a step can be taken piece by piece.
    Their state is a flat mapping of names to tensors, so that files need no pickle.

    Args:
        drafter: The drafter to train.
        dtype: Type in which to multiply matrices.
    """

    def __init__(self, drafter: AnyDrafter, dtype: torch.dtype) -> None:
        self._names = {id(parameter): name for name, parameter in drafter.named_parameters()}
        named = dict(drafter.named_parameters())
        matrices = [parameter for name, parameter in named.items() if parameter.dim() == 2 and name not in TABLES]
        vectors = [parameter for parameter in drafter.parameters() if parameter.dim() < 2]
        self._parts: tuple[tuple[torch.optim.Optimizer, float], ...] = (
            *((Muon([each], lr=MUON_RATE, weight_decay=MUON_DECAY, dtype=dtype), MUON_RATE) for each in matrices),
            (torch.optim.AdamW(vectors, lr=ADAM_RATE, weight_decay=0.0), ADAM_RATE),
        )
        for names, rate_of in (((HEAD,), HEAD_RATE), (MARKOV, ADAM_RATE)):
            if tables := [named[name] for name in names if name in named]:
                self._parts += ((torch.optim.AdamW(tables, lr=rate_of, weight_decay=0.0), rate_of),)

    def pieces(self, factor: float) -> list[Callable[[], None]]:
        """Return the pieces of a step, which apply and clear the gradients at `factor` of the peak rates."""
        return [partial(_step, optimizer, peak * factor) for optimizer, peak in self._parts]

    def discard(self) -> None:
        """Clear the gradients."""
        for optimizer, _ in self._parts:
            optimizer.zero_grad()

    def rearrange(self, name: str, before_D: Tensor, after_E: Tensor) -> None:
        """Adapt to a change of the tokens that a parameter's rows belong to. New rows start without state."""
        for optimizer, _ in self._parts:
            for parameter, quantities in optimizer.state.items():
                if self._names[id(parameter)] == name:
                    for quantity, value in quantities.items():
                        if value.dim() == 2:
                            places = before_D.to(value.device), after_E.to(value.device)
                            quantities[quantity] = rows_for(places[1], value, places[0], torch.zeros_like(value))

    def state(self) -> dict[str, Tensor]:
        """Return the state as `<parameter>/<quantity>`, without copying tensors."""
        return {
            f"{self._names[id(parameter)]}/{quantity}": value
            for optimizer, _ in self._parts
            for parameter, quantities in optimizer.state.items()
            for quantity, value in quantities.items()
        }

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Load a state returned by `state` for a drafter of the same shape."""
        for optimizer, _ in self._parts:
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    prefix = f"{self._names[id(parameter)]}/"
                    found = {name.removeprefix(prefix): t for name, t in state.items() if name.startswith(prefix)}
                    if found:
                        optimizer.state[parameter] = {name: _placed(name, t, parameter) for name, t in found.items()}


def _step(optimizer: torch.optim.Optimizer, lr: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = lr
    optimizer.step()
    optimizer.zero_grad()


def _placed(name: str, value: Tensor, parameter: Tensor) -> Tensor:
    # AdamW keeps its step count on the CPU.
    return value.clone() if name == "step" else value.to(parameter.device, copy=True)


MIN_TOKENS = 256
"""With batches of at most 512 tokens, a step has about 460. On the demo's model, expected tokens per round of a chain
of 3 after 20 k and 160 k tokens: 2.14 and 3.37; with a minimum of 384, 2.00 and 3.40; with batches of at most 256, 2.28
and 3.36 at four fifths of the speed."""
WORK = 1.5
"""Multiplications of a step ÷ those of the passes before it, at most. They grow with the third power of the hidden
size, those of the passes with the second: for the drafter of a 7B model, a step after every 460 tokens would be four
fifths of all work. With this limit it takes 1,250 tokens, and trains twice as fast, by calculation; the demo's drafter
stays at the minimum."""


def step_tokens(form: DrafterFormat, passes: float) -> int:
    """Return the minimum tokens per optimizer step for a drafter whose layers every state passes this many times."""
    shapes = {name: shape for name, shape in form.tensor_shapes().items() if len(shape) == 2 and name not in TABLES}
    head = form.draft_vocab_size * form.hidden_size
    weights = sum(map(math.prod, shapes.values()))
    # Two per weight forwards, two for the gradients of the inputs, two for those of weights that are trained.
    per_token = passes * (6 * weights + (6 if form.trains_head else 4) * head)
    return max(MIN_TOKENS, math.ceil(sum(starmap(_orthogonalizing, shapes.values())) / (WORK * per_token)))


def _orthogonalizing(rows: int, columns: int) -> int:
    short, long = sorted((rows, columns))
    return ROUNDS * (4 * short**2 * long + 2 * short**3)
