"""
DSpark's Markov head, which makes drafts depend on each other, computed like SGLang's `models/dspark.py`.

It adds to a draft's logits a bias that depends on the previous token, so that the drafter's probability of a block is a
product of conditional probabilities.

Shapes: A blocks, N drafts, H hidden size, R rank, V vocabulary.
"""

import torch
from torch import Tensor, nn

from tlt_common.drafter.block import BlockFormat, MarkovHead


class Markov(nn.Module):
    """A low-rank bias: each previous token has a vector of R elements, and so does each possible draft token."""

    def __init__(self, form: BlockFormat) -> None:
        super().__init__()
        self.markov_w1 = nn.Embedding(form.vocab_size, form.markov_rank)
        self.markov_w2 = nn.Linear(form.markov_rank, form.vocab_size, bias=False)

    def forward(self, hidden_ANH: Tensor, before_AN: Tensor) -> Tensor:
        """Return the bias of each draft, (A, N, V), given the states of the drafts and the tokens before them."""
        bias_ANV: Tensor = self.markov_w2(self.latent(hidden_ANH, self.markov_w1(before_AN)))
        return bias_ANV

    def latent(self, hidden_ANH: Tensor, before_ANR: Tensor) -> Tensor:  # noqa: ARG002 - the others read it
        """Return the factors that are multiplied with the vectors of the possible draft tokens, (A, N, R)."""
        return before_ANR


class GatedMarkov(Markov):
    """A low-rank bias gated by the state of the draft."""

    def __init__(self, form: BlockFormat) -> None:
        super().__init__(form)
        self.gate_proj = nn.Linear(form.hidden_size + form.markov_rank, form.markov_rank)

    def latent(self, hidden_ANH: Tensor, before_ANR: Tensor) -> Tensor:
        gate_ANR = self.gate_proj(torch.cat((hidden_ANH, before_ANR.to(hidden_ANH.dtype)), dim=-1)).sigmoid()
        gated_ANR: Tensor = gate_ANR.to(before_ANR.dtype) * before_ANR
        return gated_ANR


class RecurrentMarkov(Markov):
    """A bias from a recurrent state of R elements, zero before the first draft, that sees all tokens of the block."""

    def __init__(self, form: BlockFormat) -> None:
        super().__init__(form)
        self.joint_proj = nn.Linear(form.hidden_size + 2 * form.markov_rank, 3 * form.markov_rank)

    def latent(self, hidden_ANH: Tensor, before_ANR: Tensor) -> Tensor:
        state_AR, found = before_ANR.new_zeros(before_ANR.shape[0], before_ANR.shape[2]), list[Tensor]()
        for hidden_AH, before_AR in zip(hidden_ANH.unbind(1), before_ANR.unbind(1), strict=True):
            read = torch.cat((state_AR, before_AR, hidden_AH.to(before_AR.dtype)), dim=-1)
            gate_AR, candidate_AR, out_AR = self.joint_proj(read).to(before_AR.dtype).chunk(3, dim=-1)
            gate_AR = gate_AR.sigmoid()
            state_AR = gate_AR * state_AR + (1.0 - gate_AR) * candidate_AR.tanh()
            found.append(out_AR.tanh())
        return torch.stack(found, dim=1)


def markov_of(form: BlockFormat) -> Markov | None:
    """Return the head of drafters of a format, or None if their drafts are independent."""
    kinds = {
        MarkovHead.VANILLA: Markov,
        MarkovHead.GATED: GatedMarkov,
        MarkovHead.RNN: RecurrentMarkov,
    }
    return kinds[form.markov_head](form) if form.markov_rank else None
