"""
The distribution that responses should have, from transformers' logits and a direct implementation of the filters.

Shares no code with the product: it is the reference for it.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from tlt_common.domain.prompt import SamplingParams

TOKENS = 4
"""Compared tokens of a response."""
WINDOWS = {"1": (0, 1), "1-4": (0, 4), "2-4": (1, 4), "3-4": (2, 4)}
"""Ranges of tokens compared jointly. The first token comes from prefill, the others from verification."""

Logits = npt.NDArray[np.float32]
Masses = npt.NDArray[np.float64]


@torch.no_grad()
def next_logits(model: Any, prompt: tuple[int, ...]) -> list[Logits]:
    """Return logits after the prompt and every continuation of k = 0 to 3 tokens: arrays [V ** k, V], by ids."""
    size, levels = int(model.config.vocab_size), []
    answers = torch.zeros(1, 0, dtype=torch.int64)
    for _ in range(TOKENS):
        ids = torch.cat([torch.tensor([prompt]).expand(len(answers), -1), answers], 1)
        levels.append(
            torch.cat([model(part, logits_to_keep=1).logits[:, 0] for part in torch.split(ids, 4096)]).float().numpy()
        )
        every = torch.arange(size).repeat(len(answers)).view(-1, 1)
        answers = torch.cat([answers.repeat_interleave(size, 0), every], 1)
    return levels


def exact(logits: list[Logits], sampling: SamplingParams) -> dict[str, Masses]:
    """Return the masses of each window's tokens, over cells numbered as by `goodness.count`, from `next_logits`."""
    masses, size = np.ones(1), logits[0].shape[1]
    for level in logits:
        masses = (masses[:, None] * filtered(level, sampling)).reshape(-1)
    by_token = masses.reshape((size,) * TOKENS)
    others = {name: tuple({*range(TOKENS)} - {*range(*window)}) for name, window in WINDOWS.items()}
    return {name: by_token.sum(axis=axes).reshape(-1) for name, axes in others.items()}


def filtered(logits_MV: Logits, sampling: SamplingParams) -> Masses:
    """
    Return the softmax at the temperature, filtered by top-k, top-p and min-p and normalized: rows [M, V].

    All three apply to the unfiltered masses: a token is kept if it is among the k most probable, if the mass of those
    before it does not exceed p, and if it has at least min-p of the largest.
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
    Return each token's place in its cumulative distribution, most probable token first; uniform on [0, 1) if exact.

    The randomized probability integral transform. It compares tokens of any context together, however long the
    response; a bias towards or against probable tokens shows at the ends of the interval. A token without mass has
    place 1.
    """
    mine_T = np.take_along_axis(masses_TV, tokens_T[:, None], 1)[:, 0]
    before_T = np.where(masses_TV > mine_T[:, None], masses_TV, 0.0).sum(1)
    places_T = before_T + mine_T * np.random.default_rng(seed).random(len(mine_T))
    found_T: Masses = np.where(mine_T > 0, np.minimum(places_T, np.nextafter(1.0, 0.0)), 1.0)
    return found_T
