"""
Draft tokens of an EAGLE-3 drafter: the policy's tokens that its head covers.

Chosen by `tlt_common.drafter.token_counts`. Always ascending, so that trainers with the same choice have the same
order. New rows of the head start as the policy's.

Shapes: D draft tokens, E draft tokens of another choice, V vocabulary, H hidden size.
"""

import torch
from torch import Tensor

from tlt_common.errors import WeightsError


def tokens_of(map_D: Tensor) -> Tensor:
    """Return the policy's token of each draft token, given a drafter's map (`d2t`)."""
    return map_D + torch.arange(len(map_D), device=map_D.device)


def map_of(tokens_D: Tensor) -> Tensor:
    """Return a drafter's map (`d2t`): the policy's token minus the draft token."""
    return tokens_D - torch.arange(len(tokens_D), device=tokens_D.device)


def require_tokens(map_D: Tensor, vocab_size: int) -> None:
    """
    Raises:
        WeightsError: The map leaves the vocabulary, or maps two draft tokens to one token.
    """
    tokens_D = tokens_of(map_D)
    if bool(((tokens_D < 0) | (tokens_D >= vocab_size)).any()):
        raise WeightsError(f"drafter tensor d2t leaves the vocabulary; accepted: tokens 0 to {vocab_size - 1}")
    if len(torch.unique(tokens_D)) != len(tokens_D):
        raise WeightsError("drafter tensor d2t maps two draft tokens to one token; tokens must be unique")


def rows_for(wanted_E: Tensor, rows_DH: Tensor, tokens_D: Tensor, otherwise_EH: Tensor) -> Tensor:
    """Return a row per wanted token: from `rows_DH`, whose tokens are `tokens_D`, otherwise from `otherwise_EH`."""
    known = tokens_D >= 0
    size = int(torch.cat((wanted_E, tokens_D)).max()) + 1
    places_V = torch.full((size,), -1, device=tokens_D.device)
    places_V[tokens_D[known]] = torch.arange(len(tokens_D), device=tokens_D.device)[known]
    found_E = places_V[wanted_E]
    return torch.where((found_E >= 0)[:, None], rows_DH[found_E.clamp(min=0)], otherwise_EH)
