"""How many tokens an optimizer step learns from, by the shape of the drafter."""

import math
from itertools import starmap

from tlt_common.drafter.format import DrafterFormat
from tlt_common.drafter.tensors import HEAD
from tlt_trainer.drafter.muon import ROUNDS

MIN_TOKENS = 256
"""With batches of at most 512 tokens, a step has about 460. On the demo's model, expected tokens per round of a chain
of 3 after 20 k and 160 k tokens: 2.14 and 3.37; with a minimum of 384, 2.00 and 3.40; with batches of at most 256, 2.28
and 3.36 at four fifths of the speed."""
WORK = 1.5
"""Multiplications of a step ÷ those of the passes before it, at most. They grow with the third power of the hidden
size, those of the passes with the second: for the drafter of a 7B model, a step after every 460 tokens would be four
fifths of all work. With this limit it takes 1,250 tokens, and trains twice as fast, by calculation; the demo's drafter
stays at the minimum."""


def step_tokens(form: DrafterFormat, passes: int) -> int:
    """Return the minimum tokens of an optimizer step of a drafter that is trained with so many passes."""
    shapes = {name: shape for name, shape in form.tensor_shapes().items() if len(shape) == 2}
    head = math.prod(shapes.pop(HEAD, (form.vocab_size, form.hidden_size)))
    weights = sum(map(math.prod, shapes.values()))
    # Two per weight forwards, two for the gradients of the inputs, two for those of weights that are trained.
    per_token = passes * (6 * weights + (6 if form.is_eagle3 else 4) * head)
    return max(MIN_TOKENS, math.ceil(sum(starmap(_orthogonalising, shapes.values())) / (WORK * per_token)))


def _orthogonalising(rows: int, columns: int) -> int:
    short, long = sorted((rows, columns))
    return ROUNDS * (4 * short**2 * long + 2 * short**3)
