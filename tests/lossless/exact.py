"""
The distribution that answers should have, from transformers' logits and a plain statement of the filters.

Nothing here is the product's: it is what the product is measured against.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from tlt_common.domain.rollout import SamplingParams

TOKENS = 4
"""Tokens of an answer that are counted."""
WINDOWS = {"1": (0, 1), "1-4": (0, 4), "2-4": (1, 4), "3-4": (2, 4)}
"""Which of them are looked at together. The first comes from prefill, the others from verification."""

Logits = npt.NDArray[np.float32]
Masses = npt.NDArray[np.float64]


@torch.no_grad()
def next_logits(model: Any, prompt: tuple[int, ...]) -> list[Logits]:
    """Logits after the prompt and every continuation of k = 0 to 3 tokens: arrays [V ** k, V], in order of ids."""
    size, levels = int(model.config.vocab_size), []
    answers = torch.zeros(1, 0, dtype=torch.int64)
    for _ in range(TOKENS):
        ids = torch.cat([torch.tensor([prompt]).expand(len(answers), -1), answers], 1)
        levels.append(
            torch.cat([model(part, logits_to_keep=1).logits[:, 0] for part in torch.split(ids, 4096)]).numpy()
        )
        every = torch.arange(size).repeat(len(answers)).view(-1, 1)
        answers = torch.cat([answers.repeat_interleave(size, 0), every], 1)
    return levels


def exact(logits: list[Logits], sampling: SamplingParams) -> dict[str, Masses]:
    """Masses of the tokens of each window, over cells as `goodness.count` numbers them, from `next_logits`."""
    masses, size = np.ones(1), logits[0].shape[1]
    for level in logits:
        masses = (masses[:, None] * filtered(level, sampling)).reshape(-1)
    by_token = masses.reshape((size,) * TOKENS)
    others = {name: tuple({*range(TOKENS)} - {*range(*window)}) for name, window in WINDOWS.items()}
    return {name: by_token.sum(axis=axes).reshape(-1) for name, axes in others.items()}


def filtered(logits_MV: Logits, sampling: SamplingParams) -> Masses:
    """
    Softmax at the temperature, cut by top-k, top-p and min-p, normalised: rows [M, V].

    All three look at the uncut masses: a token stays if it is among the k most probable, if those before it hold no
    more than p, and if it has at least min-p of the largest.
    """
    scaled_MV = logits_MV.astype(np.float64) / sampling.temperature
    masses_MV: Masses = np.exp(scaled_MV - scaled_MV.max(-1, keepdims=True))
    masses_MV /= masses_MV.sum(-1, keepdims=True)
    order_MV = np.argsort(-masses_MV, axis=-1, kind="stable")
    sorted_MV = np.take_along_axis(masses_MV, order_MV, -1)
    keep_MV = np.cumsum(sorted_MV, -1) - sorted_MV <= sampling.top_p
    keep_MV &= sorted_MV >= sampling.min_p * sorted_MV[:, :1]
    if sampling.top_k:
        keep_MV[:, sampling.top_k :] = False
    kept_MV = np.where(keep_MV, sorted_MV, 0.0)
    np.put_along_axis(masses_MV, order_MV, kept_MV / kept_MV.sum(-1, keepdims=True), -1)
    return masses_MV


def places(masses_TV: Masses, tokens_T: npt.NDArray[np.int64], seed: int) -> Masses:
    """
    Place of each token on the line of its own distribution, most probable token first: uniform on [0, 1) if drawn so.

    The randomised probability integral transform. It judges tokens of any context together, however long the answer;
    what favours or spares probable tokens shows at the line's ends. A token of no mass has place 1.
    """
    mine_T = np.take_along_axis(masses_TV, tokens_T[:, None], 1)[:, 0]
    before_T = np.where(masses_TV > mine_T[:, None], masses_TV, 0.0).sum(1)
    places_T = before_T + mine_T * np.random.default_rng(seed).random(len(mine_T))
    found_T: Masses = np.where(mine_T > 0, np.minimum(places_T, np.nextafter(1.0, 0.0)), 1.0)
    return found_T
