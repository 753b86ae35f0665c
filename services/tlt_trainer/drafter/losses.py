"""The loss and the score of each kind of drafter. Pure."""

from torch import Tensor

from tlt_trainer.drafter import block_loss
from tlt_trainer.drafter.kinds.block import BlockDrafter
from tlt_trainer.drafter.kinds.draft_model import AnyDrafter, DraftModel
from tlt_trainer.drafter.loss import Pack, PassScores, unrolled_loss


def learns_with_rows(drafter: AnyDrafter) -> bool:
    """
    Return whether the loss can use a subset of the policy's head rows, because these are the drafter's only token
    table.
    """
    return isinstance(drafter, DraftModel) and not drafter.form.trains_head


def loss_of(
    drafter: AnyDrafter,
    embedding_VH: Tensor,
    head_VH: Tensor,
    pack: Pack,
    *,
    passes: int | None = None,
    regression_weight: float | None = None,
) -> PassScores:
    """Return the training loss of a pack. None uses the defaults of the drafter's kind."""
    if isinstance(drafter, BlockDrafter):
        return block_loss.loss_of(drafter, embedding_VH, head_VH, pack, regression_weight=regression_weight)
    chain = _chain(drafter)
    return unrolled_loss(chain, embedding_VH, head_VH, pack, passes=passes, regression_weight=regression_weight)


def scores_of(
    drafter: AnyDrafter, embedding_VH: Tensor, head_VH: Tensor, pack: Pack, *, drafts: int, temperature: float = 1.0
) -> PassScores:
    """Return how well `drafts` consecutive drafts predict a pack, with both sampled at this temperature."""
    if isinstance(drafter, BlockDrafter):
        return block_loss.scores_of(drafter, embedding_VH, head_VH, pack, drafts=drafts, temperature=temperature)
    return unrolled_loss(_chain(drafter), embedding_VH, head_VH, pack, passes=drafts, temperature=temperature)


def _chain(drafter: AnyDrafter) -> DraftModel:
    assert isinstance(drafter, DraftModel)  # noqa: S101 - there is no third kind
    return drafter
