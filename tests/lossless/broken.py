"""
Deliberately wrong acceptance rules; the suite must flag each of them.

`install` is a plug-in for SGLang, found through an entry point that `conftest.py` writes for one scene.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tests.lossless.exact import Logits, Masses
from tlt_worker.scheduler.sampling import acceptance as sampling
from tlt_worker.scheduler.sampling.draw import draw

Accept = Callable[..., None]
correct: Accept = sampling.accept_chain


def install() -> None:
    """Accept drafts that are likely under the target, in every chain of this process."""
    sampling.accept_chain = likely  # type: ignore[assignment] # SGLang passes names


def likely(**kw: Any) -> None:
    """Accept a draft if p > 0.3."""
    _decide(kw, lambda p_BN, q_BN, coins_BN: p_BN > 0.3)


def lenient(**kw: Any) -> None:
    """Accept a draft as with an acceptance threshold of 0.9."""
    _decide(kw, lambda p_BN, q_BN, coins_BN: coins_BN * q_BN < p_BN / 0.9)


def residual_of_next_position(**kw: Any) -> None:
    """Accept correctly, then draw from the residual with the drafter's distribution of the next position."""
    kept = {**kw, "draft_probs": kw["draft_probs"].roll(-1, dims=1)}
    _decide(kw, lambda p_BN, q_BN, coins_BN: coins_BN * q_BN < p_BN, after=kept)


def no_residual(**kw: Any) -> None:
    """Accept correctly, then draw from p instead of p - q."""
    _decide(
        kw,
        lambda p_BN, q_BN, coins_BN: coins_BN * q_BN < p_BN,
        after={**kw, "draft_probs": torch.zeros_like(kw["draft_probs"])},
    )


def _decide(
    kw: dict[str, Any], rule: Callable[[Tensor, Tensor, Tensor], Tensor], after: dict[str, Any] | None = None
) -> None:
    """Accept by `rule`, through coins that leave the correct function no choice; `after` replaces its arguments."""
    drafts_BN1 = kw["candidates"][:, 1:].to(torch.int64).unsqueeze(-1)
    p_BN = kw["target_probs"][:, :-1].gather(2, drafts_BN1).squeeze(-1)
    q_BN = kw["draft_probs"][:, : p_BN.shape[1]].gather(2, drafts_BN1).squeeze(-1)
    coins_BN = kw["uniform_samples"]
    kept_BN = rule(p_BN, q_BN, coins_BN[:, : p_BN.shape[1]])
    forced_BN = torch.full_like(coins_BN, torch.inf)
    forced_BN[:, : p_BN.shape[1]] = torch.where(kept_BN, 0.0, torch.inf)
    correct(**{**(after or kw), "uniform_samples": forced_BN})


def filtered_twice(logits_MV: Logits, temperature: float, top_k: int, top_p: float) -> Masses:
    """Top-k, normalized, then top-p of the result: SGLang's own order in verification."""
    scaled_MV = np.exp((logits_MV - logits_MV.max(-1, keepdims=True)) / temperature)
    order_MV = np.argsort(-scaled_MV, axis=-1)
    kept_MV = np.take_along_axis(scaled_MV, order_MV, -1)[:, :top_k]
    kept_MV /= kept_MV.sum(-1, keepdims=True)
    kept_MV[np.cumsum(kept_MV, -1) - kept_MV > top_p] = 0.0
    masses_MV = np.zeros(logits_MV.shape)
    np.put_along_axis(masses_MV, order_MV[:, :top_k], kept_MV / kept_MV.sum(-1, keepdims=True), -1)
    return masses_MV


def first_of_siblings(p_BV: Tensor, siblings: tuple[int, ...], coins_B: Tensor, last_B: Tensor) -> Tensor:
    """
    Walk one node of a tree as SGLang's CUDA kernel does: one coin against the siblings' cumulative mass.

    A repeated sibling adds its mass again. `last_B` are coins for the token if no sibling is accepted.
    """
    mass_B, accepted_B, rest_BV = torch.zeros_like(coins_B), torch.full_like(coins_B, -1.0), p_BV.clone()
    for token in siblings:
        mass_B = mass_B + p_BV[:, token]
        accepted_B = torch.where((accepted_B < 0) & (coins_B < mass_B), float(token), accepted_B)
        rest_BV[:, token] = 0.0
    return torch.where(accepted_B < 0, draw(rest_BV, last_B), accepted_B.to(torch.int64))
