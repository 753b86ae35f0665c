"""Samples packed end to end into training batches without padding."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from countdown.traces import Sample, samples

BATCH_TOKENS: Final = 4096

ROW_LENGTHS: Final = (256, 256, 256, 256, 256, 1024, 1024, 2048)
"""Row lengths to choose from per batch. Short rows are cheap; long rows train the positions of long responses."""

DRILL_SHARE: Final = 0.4


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Rows with one token more than is predicted. B rows, T predicted tokens per row."""

    ids_BT1: Tensor  # noqa: N815 - shape suffix
    """int64, B x (T + 1)."""

    weights_BT: Tensor  # noqa: N815 - shape suffix
    """float32, the weight of predicting each token except the first."""

    @property
    def token_count(self) -> int:
        """Number of predicted tokens."""
        return self.weights_BT.numel()


def batches(seed: int) -> Iterator[Batch]:
    """Yield batches of `BATCH_TOKENS` tokens indefinitely, determined by `seed`."""
    rng = random.Random(seed)
    stream = samples(rng, drill_share=DRILL_SHARE)
    ids, weights = list[int](), list[float]()
    while True:
        length = rng.choice(ROW_LENGTHS)
        shape = BATCH_TOKENS // length, length + 1
        needed = shape[0] * shape[1]
        while len(ids) < needed:
            _extend(ids, weights, next(stream))
        ids_BT1 = torch.tensor(ids[:needed]).view(shape)
        weights_BT1 = torch.tensor(weights[:needed]).view(shape)
        yield Batch(ids_BT1=ids_BT1, weights_BT=weights_BT1[:, 1:])
        del ids[:needed], weights[:needed]


def _extend(ids: list[int], weights: list[float], sample: Sample) -> None:
    ids += sample.ids
    weights += sample.weights
